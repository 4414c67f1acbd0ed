# SPDX-License-Identifier: BSD-2-Clause
"""Request latency of several runs: percentiles of Q2D, D2C and Q2C by operation."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import latency
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import Row, make_table, union
from analysis.sections.latency import OF_VOLUMES

SHOWN_PERCENTS = (50.0, 99.0, 100.0)


def build_latency(runs: Runs, tags: Tags) -> list[Section]:
    """Percentiles of Q2D, D2C and Q2C by op."""
    section = Section()
    blocks = [one.results.block for one in runs]
    by_run = [block.latency.rows if block is not None else {} for block in blocks]
    rows = []
    for op in union(
        [[op for op, class_ in latencies if not class_ and latencies[op, class_]] for latencies in by_run]
    ):
        for stage in ("Q2D", "D2C", "Q2C"):
            stages = [
                next((r for r in latencies.get((op, ""), []) if r.stage == stage), None)
                for latencies in by_run
            ]
            for percent in SHOWN_PERCENTS:
                at = latency.PERCENTS.index(percent)
                values = [None if row is None else row.at_ns[at] for row in stages]
                rows.append(
                    Row(
                        (op, stage, f"p{percent:g}" if percent < 100 else "max"),
                        values,
                        units.ns,
                    )
                )
    if not rows:
        section.absent = "no run recorded a request that completed"
        return [section]
    section.tables.append(make_table(("op", "stage", "at"), runs, tags.short, rows, True, ("block",)))
    section.definition = latency.DEFINITION
    if any(one.results.is_stacked for one in runs):
        section.definition += OF_VOLUMES
    return [section]


SECTIONS = (CompareSpec("latency", "Request latency", 600, build_latency, collectors=("block",)),)
