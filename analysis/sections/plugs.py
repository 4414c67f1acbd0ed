# SPDX-License-Identifier: BSD-2-Clause
"""Plugs: requests that threads held back before they were issued."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import plugs
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.device_number import device_text
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables


def build_plugs(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a device; no section where plugs were not recorded."""
    if results.block is None or results.block.plugs is None or not results.device.utilization:
        return []
    section = Section()
    rows = []
    for r in results.block.plugs:
        rows.append(
            (
                results.device.labels.get(r.dev, device_text(r.dev)),
                units.count(r.unplugs),
                units.percent(1 - r.by_schedule / r.unplugs),
                units.figures(r.mean_depth),
                *(units.count(v) for v in r.depth_at),
                units.ns(r.held_mean_ns),
                *([units.ns(v) for v in r.held_at_ns[1:]] if r.held_at_ns else ("-", "-")),
            )
        )
    if rows:
        depth = ("depth mean", "p50", "p99", "max")
        section.tables.append(
            Table(("<device", "unplugs", "expl. %", *depth, "held mean", "p99", "max"), rows)
        )
    else:
        section.notes.append("no unplug was traced")
    section.definition = plugs.DEFINITION
    return [section]


SECTIONS = (
    SectionSpec(
        "plugs",
        "Plugs",
        1700,
        build_plugs,
        collectors=("block",),
        of_disks=True,
        counts_all=True,
        explains=(DEVICE,),
    ),
)
