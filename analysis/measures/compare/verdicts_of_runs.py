# SPDX-License-Identifier: BSD-2-Clause
"""The figures of several runs, paired for verdicts: the first runs' side against each other side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.errors import TableError
from analysis.measures.app.phases import OUTSIDE
from analysis.measures.compare.compared_locks import has_workload
from analysis.measures.compare.compared_measures import Measure, causes, outcomes
from analysis.measures.compare.compared_run import EMULATED, INSIDE_AND_OUTSIDE, Compared, is_virtual
from analysis.measures.compare.differences import Side, sides
from analysis.measures.compare.verdicts import Figure, Pair
from analysis.measures.sweep.figure import METRIC
from analysis.measures.sweep.figure import Figure as Metric
from analysis.measures.sweep.run_figures import HEADLINE
from analysis.measures.sweep.workload_metrics import workload_metrics
from analysis.rundir.run import dig
from analysis.tables.load import load_table
from analysis.tables.result import TABLE as RESULT

BETTER_BY_UNIT = {"s": "lower", "ns": "lower", "B": "lower", "MB/s": "higher", "/s": "higher"}
LIKE_MEMORY = 0.05  # of the memory: kernels keep different shares of one machine's for themselves


def pairs_of_runs(runs: Sequence[Compared]) -> list[Pair]:
    """The first side against each other side; none if all runs are repetitions."""
    first, *others = sides(runs)
    metrics = _metrics(runs)
    # older runs state none: then the time is the headline of all
    has_metrics = all(bool(dig(compared.run.facts, "workload", "metrics")) for compared in runs)
    measured = [measure for measure in outcomes(runs) if not measure.name.startswith(f"phase {OUTSIDE}")]
    possible_causes = causes(runs)
    pairs = []
    for other in others:
        own = _own(runs, metrics, first, other, has_metrics)
        figures = [_figure(runs, first, other, measure, not has_metrics) for measure in measured]
        because = [_figure(runs, first, other, measure, False, "cause") for measure in possible_causes]
        pairs.append(Pair(_letters(runs, first), _letters(runs, other), "", [*own, *figures], because))
    return pairs


def _metrics(runs: Sequence[Compared]) -> list[dict[str, Metric]]:
    """The workload's own metrics of each run, by name."""
    found = []
    for compared in runs:
        phases = [row for row in compared.results.phases or [] if row.name != OUTSIDE]
        try:
            results = load_table(compared.run, RESULT)
        except TableError:
            results = None  # "Warnings and gaps" states it
        metrics = workload_metrics(compared.run, results, phases)
        found.append({metric.measure: metric for metric in metrics})
    return found


def _own(
    runs: Sequence[Compared],
    metrics: Sequence[Mapping[str, Metric]],
    first: Side,
    other: Side,
    has_headline: bool,
) -> list[Figure]:
    """The figures of the workload's own metrics, in the workload's order."""
    by_name = {name: metric for i in (*other, *first) for name, metric in metrics[i].items()}
    figures = []
    for name in dict.fromkeys(name for i in (*first, *other) for name in metrics[i]):
        metric = by_name[name]
        values = [[metrics[i][name].value for i in side if name in metrics[i]] for side in (first, other)]
        untold = _untold(runs, first, other, Measure(name, metric.unit, [], True))
        better = metric.better or BETTER_BY_UNIT.get(metric.unit, "")
        figures.append(
            Figure(
                name,
                metric.unit,
                METRIC,
                better,
                has_headline and metric.headline,
                values[0],
                values[1],
                untold,
            )
        )
    return figures


def _letters(runs: Sequence[Compared], side: Side) -> str:
    return "+".join(runs[i].letter for i in side)


def _figure(
    runs: Sequence[Compared],
    first: Side,
    other: Side,
    measure: Measure,
    has_headline: bool,
    kind: str = "",
) -> Figure:
    return Figure(
        name=measure.name,
        unit=measure.unit,
        kind=kind or ("phase" if measure.name.startswith("phase ") else "outcome"),
        better=BETTER_BY_UNIT.get(measure.unit, ""),
        is_headline=has_headline and measure.name == HEADLINE,
        first=_values(measure, first),
        other=_values(measure, other),
        untold=_untold(runs, first, other, measure),
    )


def _values(measure: Measure, side: Side) -> list[float]:
    return [value for i in side if (value := measure.values[i]) is not None]


def _untold(runs: Sequence[Compared], first: Side, other: Side, measure: Measure) -> str:
    """Why the measure gets no verdict; empty if it does."""
    both = [runs[i] for i in (*first, *other)]
    if not all(has_workload(compared) for compared in both):
        return "a run without a workload"
    if any(_work(compared) != _work(both[0]) for compared in both):
        return "the sides did different work"
    if not all(_ended_well(compared) for compared in both):
        return "a run failed or was interrupted"
    if measure.of_time and any(compared.emulated for compared in both):
        return EMULATED
    if measure.of_time and len({is_virtual(compared) for compared in both}) > 1:
        return INSIDE_AND_OUTSIDE
    if measure.is_bound(first, other):
        return "a lower bound"
    lossy = [name for name in measure.collectors if any(compared.run.lossy(name) for compared in both)]
    return f"events of {', '.join(lossy)} were lost" if lossy else ""


def _work(compared: Compared) -> tuple[str, ...]:
    """What a run did: equal in runs whose times may be compared."""
    run = compared.run
    named = [run.text("workload", key) for key in ("name", "variant", "scale")]
    return (*named, *(run.text("words", key) for key in ("CMD", "ARGS")))


def _ended_well(compared: Compared) -> bool:
    run = compared.run
    return run.state == "complete" and run.int_("workload", "exit_status") == 0


def other_machines(runs: Sequence[Compared]) -> list[str]:
    """The runs, by letter, that ran on another machine than the first, as far as run.json tells."""
    return [one.letter for one in runs[1:] if not _is_same_machine(runs[0], one)]


def _is_same_machine(first: Compared, other: Compared) -> bool:
    """CPUs and memory of a virtual machine are variables of the run, and tell nothing of its host."""
    are_virtual = is_virtual(first) and is_virtual(other)
    names = ("cpu_model",) if are_virtual else ("cpu_model", "virtualization", "cpus")
    known = [
        (a, b)
        for name in names
        if (a := first.run.text("machine", name)) and (b := other.run.text("machine", name))
    ]
    memory = [one.run.int_("machine", "memory_bytes") for one in (first, other)]
    return all(a == b for a, b in known) and (are_virtual or is_like_memory(*memory))


def is_like_memory(first: int | None, other: int | None) -> bool:
    """Whether these may be one machine's bytes of memory, as two kernels count them."""
    return not first or not other or abs(other / first - 1) <= LIKE_MEMORY
