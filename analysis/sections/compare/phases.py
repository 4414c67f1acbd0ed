# SPDX-License-Identifier: BSD-2-Clause
"""Time by phase of several runs: times and rates, then what may always be compared."""

from __future__ import annotations

from collections.abc import Callable

from analysis import units
from analysis.measures.app import phases
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import DIFFERS, Row, Value, integer, make_table, union


def build_phases(runs: Runs, tags: Tags) -> list[Section]:
    """Per phase: times and rates, then what may always be compared."""
    section = Section()
    names = union([[row.name for row in one.results.phases or []] for one in runs])
    if not names:
        section.absent = "no workload marked phases"
        return [section]
    timed, counted = [], []
    bounds = [bool(one.results.app.uncounted) for one in runs]
    for name in names:
        of = [
            Row((name, "s"), _phase_values(runs, name, lambda r: r.elapsed_s), units.seconds),
            Row(
                (name, "workload MB/s, mean"),
                _phase_values(runs, name, lambda r: r.own_mb_s),
                units.rate,
            ),
            Row(
                (name, "app MB/s"),
                _phase_values(runs, name, _app_megabytes_per_s),
                units.rate,
                bounds=bounds,
            ),
            Row(
                (name, "dev MB/s"),
                _phase_values(runs, name, lambda r: _megabytes_per_s(r.device_bytes, r)),
                units.rate,
            ),
            Row((name, "seeks/s"), _phase_values(runs, name, lambda r: r.recorded_rate(r.seeks)), units.rate),
        ]
        timed += [row for row in of if any(value is not None for value in row.values)]
        of = [
            Row((name, "dev bytes"), _phase_values(runs, name, lambda r: r.device_bytes), units.bytes_),
            Row((name, "meta %"), _phase_values(runs, name, _metadata), units.percent, ratio=False),
            Row((name, "seeks"), _phase_values(runs, name, lambda r: r.seeks), integer),
        ]
        counted += [row for row in of if any(value is not None for value in row.values)]
    section.tables.append(make_table(("phase", ""), runs, tags.short, timed, True, ("block", "calls")))
    if counted:
        section.tables.append(make_table(("phase", ""), runs, tags.short, counted, False, ("block",)))
    section.definition = (
        "s: time in phases of this name; workload MB/s: file data that the workload counted per second of"
        " its phase, mean over the phases of the name +- 95 % confidence interval, or a single observation;"
        f" {DIFFERS}: the means differ by the rule above. app, dev, meta: see throughput."
    )
    return [section]


def _phase_values(runs: Runs, name: str, get: Callable[[phases.PhaseRow], Value]) -> list[Value]:
    values: list[Value] = []
    for one in runs:
        row = next((row for row in one.results.phases or [] if row.name == name), None)
        values.append(get(row) if row is not None else None)
    return values


def _megabytes_per_s(amount: float | None, row: phases.PhaseRow) -> float | None:
    return row.recorded_rate(None if amount is None else amount / 1e6)


def _app_megabytes_per_s(row: phases.PhaseRow) -> float | None:
    rate = row.app_rate()
    return None if rate is None else rate / 1e6


def _metadata(row: phases.PhaseRow) -> float | None:
    return (
        row.metadata_bytes / row.known_bytes if row.known_bytes and row.metadata_bytes is not None else None
    )


SECTIONS = (
    CompareSpec("phases", "Time by phase", 300, build_phases, essential=True, collectors=("block", "calls")),
)
