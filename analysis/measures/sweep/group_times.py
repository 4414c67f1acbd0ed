# SPDX-License-Identifier: BSD-2-Clause
"""The causes of the difference between two configurations' times, from the figures of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.measures.compare.time_apart import RunTimes, TimeApart, time_apart
from analysis.measures.compare.work import Work
from analysis.measures.sweep.data import Group
from analysis.measures.sweep.figure import TIME, WORK
from analysis.measures.sweep.run_times import BY, BYTES, CALLS, OPS, SYNCS
from analysis.rundir.sweep_dir import Configuration

WORDS = ("WL", "SCALE", "CMD", "ARGS")  # that state the work


def apart(group: Group, first: Configuration, other: Configuration) -> TimeApart | None:
    """The causes of the difference of two configurations' times; None: their runs have no times."""
    frame = group.frame[group.frame.kind.isin((TIME, WORK))]
    times: list[RunTimes] = []
    sides: list[list[int]] = []
    for configuration in (first, other):
        rows = frame[frame.configuration == configuration.id]
        side = []
        for task in dict.fromkeys(rows.task):
            of_task = rows[rows.task == task]
            values = dict(zip(map(str, of_task.measure), map(float, of_task.value), strict=True))
            side.append(len(times))
            times.append(_times(str(task), group, configuration, values))
        sides.append(side)
    return time_apart(sides, times) if all(sides) else None


def _times(task: str, group: Group, configuration: Configuration, values: Mapping[str, float]) -> RunTimes:
    lines: dict[str, dict[str, float]] = {}
    texts = {}
    for name, seconds in values.items():
        basis, _, rest = name.removeprefix(BY).partition(": ")
        key, _, text = rest.partition(": ")
        if name.startswith(BY) and key:
            lines.setdefault(basis, {})[key] = seconds
            texts[key] = text
    return RunTimes(task, lines, {}, texts, {}, "", _work(group, configuration, values))


def _work(group: Group, configuration: Configuration, values: Mapping[str, float]) -> Work:
    moved = _named(values, BYTES)
    return Work(
        stated=tuple(configuration.words.get(name, "") for name in WORDS),
        name=group.wl,
        bytes=moved or None,
        calls=_named(values, CALLS),
        syncs=round(values.get(SYNCS, 0.0)),
        ops=_named(values, OPS),
        lossy=False,
    )


def _named(values: Mapping[str, float], begin: str) -> dict[str, int]:
    return {
        name.removeprefix(begin): round(value) for name, value in values.items() if name.startswith(begin)
    }


def fastest_and_slowest(group: Group) -> Sequence[Configuration]:
    """The best configuration by the headline and the worst; empty without two of them."""
    rows = group.ranking.rows
    return (rows[0].configuration, rows[-1].configuration) if len(rows) > 1 and group.ranking.better else ()
