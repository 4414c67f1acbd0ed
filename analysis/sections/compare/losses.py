# SPDX-License-Identifier: BSD-2-Clause
"""Events that each run's collectors recorded and lost, and the CPU time that tracing took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import units
from analysis.measures.common.tracing_cost import RECORDER, Cost, measure_cost
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import Row, Value, integer, make_table, union
from analysis.sections.marks import MARKING


def build_losses(runs: Runs, tags: Tags) -> list[Section]:
    """Recorded and lost events and CPU time, by collector."""
    section = Section()
    rows = []
    costs = [{row.name: row for row in measure_cost(one.run, one.results.recorded_s).rows} for one in runs]
    for name in union([list(one.run.losses) for one in runs]):
        of = [one.run.losses.get(name) for one in runs]
        recorded = [None if loss is None or not loss.is_on else loss.recorded for loss in of]
        lost = [None if loss is None or not loss.is_on else loss.lost_total for loss in of]
        rows += [
            Row((name, "recorded"), recorded, integer, ratio=False, is_sum=True),
            Row((name, "lost"), lost, integer, ratio=False, is_sum=True),
            *_cost_rows(name, costs),
        ]
        section.notes += [
            f"{one.letter}: {name} is off: {one.run.off(name)}"
            for one in runs
            if name in one.run.losses and name not in one.run.asked  # else "Warnings and gaps" says it
        ]
    rows += _cost_rows(RECORDER, costs)
    if rows:
        section.tables.append(make_table(("collector", ""), runs, tags.short, rows, False, is_judged=False))
    else:
        section.absent = "no run has an entry in losses.json"
    section.definition = (
        "BPF CPU %: time in BPF programs, timed in short windows (each run's report has its interval), over"
        f" all CPUs' time; user CPU %: of the collector's process ({RECORDER}: of all its collectors); total"
        f" %: both. Of repetitions recorded and lost are sums. {MARKING}"
    )
    return [section]


def _cost_rows(name: str, costs: Sequence[Mapping[str, Cost]]) -> list[Row]:
    """What one collector cost in each run; nothing if no run knows it."""
    of = [cost.get(name) for cost in costs]
    values: dict[str, list[Value]] = {
        "BPF CPU %": [row.bpf.value if row is not None and row.bpf is not None else None for row in of],
        "user CPU %": [row.user if row is not None else None for row in of],
        "total %": [row.total if row is not None else None for row in of],
    }
    return [
        Row((name, what), shares, units.percent, ratio=False)
        for what, shares in values.items()
        if any(share is not None for share in shares)
    ]


SECTIONS = (CompareSpec("losses", "Lost events and overhead", 1300, build_losses),)
