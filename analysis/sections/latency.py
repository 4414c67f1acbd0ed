# SPDX-License-Identifier: BSD-2-Clause
"""Request latency: percentiles of Q2D, D2C and Q2C by operation, and of Q2C by class."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.measures.block import latency
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables

OF_VOLUMES = (
    " Above volumes, Q2C (also by class) is of the file system's bios, from queue to end through all layers;"
    " Q2D and D2C are of the disks' requests, also of those that volumes make on their own."
)


def build_latency(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Percentiles of Q2D, D2C and Q2C by op, and of Q2C by class."""
    section = Section()
    if results.block is None:
        section.absent = run.absent("block")
        return [section]
    owners = results.shared_owners
    groups: list[tuple[str, Sequence[latency.LatencyRow]]] = []
    for (op, class_), latencies in results.block.latency.rows.items():
        if owners is None or class_:
            groups.append((f"  {class_}" if class_ else op, latencies))
        else:
            groups += [(f"{op}, own", owners.latency.get(op, ())), (f"{op}, all", latencies)]
    rows = []
    for name, stages in groups:
        for i, row in enumerate(stages):
            first = i == 0
            label = name if first else ""
            count = units.count(row.count) if first or results.is_stacked else ""
            rows.append((label, row.stage, count, *(units.ns(v) for v in row.at_ns)))
    if rows:
        heads = ("<op", "<stage", "count", *(f"p{p:g}" if p < 100 else "max" for p in latency.PERCENTS))
        section.tables.append(Table(heads, rows))
    else:
        section.notes.append("no request completed")
    if results.block.latency.untimed:
        section.notes.append(
            f"{results.block.latency.untimed:,} requests are in no percentile: no end was recorded, or"
            " their times are out of order; tails may be too short"
        )
    if results.block.latency.untimed_bios:
        section.notes.append(
            f"{results.block.latency.untimed_bios:,} bios to volumes are in no percentile: their end was not"
            " recorded"
        )
    section.definition = latency.DEFINITION + (OF_VOLUMES if results.is_stacked else "")
    return [section]


SECTIONS = (
    SectionSpec(
        "latency",
        "Request latency",
        1400,
        build_latency,
        essential=True,
        collectors=("block",),
        explains=(DEVICE,),
    ),
)
