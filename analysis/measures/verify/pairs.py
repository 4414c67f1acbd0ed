# SPDX-License-Identifier: BSD-2-Clause
"""The pairs of runs in a directory of make verify, and what these test; a stranger may have made both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis import front
from analysis.errors import ReportError, TableError
from analysis.measures.verify.judgement import Pair, Prediction
from analysis.rundir.files import read_json_object
from analysis.rundir.run import as_float, as_int, clean, dig
from analysis.rundir.sweep_dir import Sweep, Task

WHAT_LETTERS, PATH_LETTERS = 1000, 4096
_DONE = "done"


@dataclass(frozen=True)
class Tested:
    """The finding that make verify was asked for, as it stood in findings.json. Texts are not cleaned."""

    run: str  # path of the run that the finding is of
    number: int
    kind: str
    what: str
    words: Mapping[str, str]  # of the remedy
    text: str  # of the remedy
    cost_s: tuple[float, float, float]
    is_recorded: bool  # whether the runs record: where the recording is the cause
    prediction: Prediction


@dataclass(frozen=True)
class Pairs:
    """All whole pairs of a sweep's blocks."""

    pairs: list[Pair]
    broken: int  # blocks without two finished runs with times


def is_verification(sweep: Sweep) -> bool:
    """Whether a sweep is one of make verify."""
    return isinstance(sweep.facts.get("finding"), Mapping)


def read_tested(sweep: Sweep) -> Tested:
    """What a sweep of make verify tests. Raises ReportError if it is none, or broken."""
    finding = sweep.facts.get("finding")
    if not isinstance(finding, Mapping):
        raise ReportError(
            f"{clean(sweep.path)} tests no finding; name a directory that {front.command('verify')} made"
        )
    predicted, cost = _interval(finding.get("predicted_s")), _interval(finding.get("cost_s"))
    goal_s, number = as_float(finding.get("goal_s")), as_int(finding.get("number"))
    words, text = dig(finding, "remedy", "words"), dig(finding, "remedy", "text")
    texts = (finding.get("run"), finding.get("kind"), finding.get("what"), text)
    if (
        not all(isinstance(each, str) for each in texts)
        or not isinstance(words, Mapping)
        or predicted is None
        or cost is None
        or goal_s is None
        or goal_s <= 0
        or number is None
        or not 0 < number < 1000
    ):
        raise ReportError(
            f"{clean(sweep.path)}: sweep.json states its finding wrongly; {front.command('verify')} again"
        )
    return Tested(
        run=str(finding["run"])[:PATH_LETTERS],
        number=number,
        kind=str(finding["kind"])[:WHAT_LETTERS],
        what=str(finding["what"])[:WHAT_LETTERS],
        words={str(name): str(value) for name, value in list(words.items())[:20]},
        text=str(text)[:WHAT_LETTERS],
        cost_s=cost,
        is_recorded=sweep.tracing != "off",
        prediction=Prediction(*predicted, goal_s, as_float(finding.get("wall_s"))),
    )


def read_pairs(sweep: Sweep) -> Pairs:
    """The pairs of a sweep of make verify: its first configuration has the cause, its second has not."""
    if len(sweep.configurations) != 2:
        raise ReportError(
            f"{clean(sweep.path)}: sweep.json has no two sides to compare; {front.command('verify')} again"
        )
    sides = [one.id for one in sweep.configurations]
    blocks: dict[int, dict[str, Task]] = {}
    for task in sweep.tasks:
        if task.configuration is not None and task.block > 0:
            blocks.setdefault(task.block, {})[task.configuration.id] = task
    pairs: list[Pair] = []
    broken = 0
    for _, tasks in sorted(blocks.items()):
        both = [tasks.get(side) for side in sides]
        if (
            any(task is not None and task.outcome in ("running", "interrupted") for task in both)
            or None in both
        ):
            continue  # not over
        pair = _pair(both[0], both[1]) if both[0] and both[1] else None
        if pair is None:
            broken += 1
        else:
            pairs.append(pair)
    return Pairs(pairs, broken)


def _pair(with_cause: Task, without: Task) -> Pair | None:
    times = [_times(task) for task in (with_cause, without)]
    if times[0] is None or times[1] is None:
        return None
    return Pair(
        with_s=times[0][0],
        without_s=times[1][0],
        after_with_s=times[0][1],
        after_without_s=times[1][1],
        first="with" if with_cause.order < without.order else "without",
    )


def _times(task: Task) -> tuple[float, float] | None:
    """Wall seconds of the workload, and of writing back and unmounting after it; None: no finished run."""
    if task.outcome != _DONE:
        return None
    try:
        facts = read_json_object(task.path / "run.json")
    except TableError:
        return None
    start, end = (as_int(dig(facts, "clock", name)) for name in ("workload_start_ns", "workload_end_ns"))
    if start is None or end is None or end <= start:
        return None
    after = [as_float(dig(facts, "timing", name)) or 0.0 for name in ("sync_s", "unmount_s")]
    return (end - start) / 1e9, sum(after)


def _interval(value: Any) -> tuple[float, float, float] | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    low, middle, high = map(as_float, value)
    if low is None or middle is None or high is None or not low <= middle <= high:
        return None
    return low, middle, high
