# SPDX-License-Identifier: BSD-2-Clause
"""All figures of one run: open its directory, measure, and keep one value of each measure.

What a run has too little of is left out (compare/compared_measures.py), so a figure may be missing in one
run of a configuration and there in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import ReportError
from analysis.measures.app.phases import OUTSIDE, PhaseRow
from analysis.measures.compare.compared_locks import by_class, spin_share
from analysis.measures.compare.compared_measures import Measure, causes, outcomes
from analysis.measures.compare.compared_run import Compared, load_compared
from analysis.measures.compare.per_operation import per_operation
from analysis.measures.sweep.figure import CAUSE, LOCK, MOST_VALUE, OUTCOME, PHASE, Figure
from analysis.measures.sweep.run_times import figures_of
from analysis.measures.sweep.within_run import within_run
from analysis.measures.sweep.workload_metrics import workload_metrics
from analysis.rundir.run import clean, dig
from analysis.tables.load import load_table
from analysis.tables.result import TABLE as RESULT

MOST_FIGURES = 10_000  # of one run
LEAST_SPIN = 0.0001  # of all CPU time: a lock that spins for less has no figure
HEADLINE = "workload"  # the outcome that is the headline of a workload without metrics


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run, and the facts that tell it from others."""

    figures: list[Figure]
    fs: str  # the file system's name; "" without one
    kernel: str
    disk: str  # the kind of disk: file, ram, disk, directory
    virtual: bool  # in a virtual machine, or on emulated CPUs


def run_figures(path: Path) -> RunFigures:
    """Measure a finished run. Raises ReportError and TableError."""
    compared = load_compared("A", path)
    run = compared.run
    if not run.facts:  # tables alone do not say what was run
        raise ReportError(run.missing[0] if run.missing else "run.json is empty")
    phases = [row for row in compared.results.phases or [] if row.name != OUTSIDE]
    own = workload_metrics(run, load_table(run, RESULT), phases)
    figures = [
        *own,
        *(figure for row in phases for figure in _of_phase(row)),
        *_of_measures(outcomes([compared]), OUTCOME, compared, has_headline=bool(own)),
        *_of_measures(causes([compared]), CAUSE, compared, has_headline=True),
        *_of_measures(per_operation([compared]), CAUSE, compared, has_headline=True),
        *_of_locks(compared),
        *within_run(compared),
        *figures_of(compared),
    ]
    named: dict[str, Figure] = {}
    for figure in figures:
        if abs(figure.value) < MOST_VALUE and len(named) < MOST_FIGURES:
            named.setdefault(figure.measure, figure)
    virtual = compared.emulated or dig(run.facts, "machine", "vm") is not None
    return RunFigures(
        list(named.values()),
        clean(run.text("filesystem", "name"), 40),
        clean(run.text("kernel", "release"), 80),
        clean(run.text("device", "kind"), 40),
        virtual,
    )


def _of_phase(row: PhaseRow) -> Iterable[Figure]:
    """Time and rates of the phases of one name, as the workload counts its operations and bytes."""
    yield Figure(f"{row.name} seconds", "s", row.elapsed_s, PHASE, "lower")
    if row.own_mb_s is not None and row.own_bytes > 0:
        yield Figure(f"{row.name} MB/s", "MB/s", row.own_mb_s.value, PHASE, "higher")
    rate = row.rate(float(row.ops))
    if rate:
        yield Figure(f"{row.name} ops/s", "/s", rate, PHASE, "higher")


def _of_measures(
    measures: Sequence[Measure], kind: str, compared: Compared, has_headline: bool
) -> Iterable[Figure]:
    """Figures of measures of this one run. A second measure of one name gets its unit as part of the name."""
    names: set[str] = set()
    for measure in measures:
        value = measure.values[0]
        if value is None or measure.name.startswith("phase "):  # _of_phase() has these
            continue
        name = measure.name if measure.name not in names else f"{measure.name}, {measure.unit}"
        names.add(name)
        yield Figure(
            clean(name, 120),
            measure.unit,
            float(value),
            kind,
            _better(measure.unit) if kind == OUTCOME else "",
            headline=not has_headline and name == HEADLINE,
            bound=measure.is_bound((0,)),
            lossy=any(compared.run.lossy(collector) for collector in measure.collectors),
        )


def _of_locks(compared: Compared) -> Iterable[Figure]:
    """Spin share by class of locks: time spinning / (CPUs x recorded time), 0..1 (bryant2002, table 1)."""
    lossy = bool(compared.run.lossy("locks"))
    for (kind, name), sums in sorted((by_class(compared) or {}).items()):
        share = spin_share(sums.spin_ns, compared)
        if share is not None and share >= LEAST_SPIN:
            yield Figure(clean(f"spinning on {kind} {name}", 120), "share", share, LOCK, "lower", lossy=lossy)


def _better(unit: str) -> str:
    return {"s": "lower", "B": "lower", "MB/s": "higher"}.get(unit, "")
