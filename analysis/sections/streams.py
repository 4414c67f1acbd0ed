# SPDX-License-Identifier: BSD-2-Clause
"""Sequential streams, interleaved or not, by device and direction."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import streams
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import SEEKS, SectionSpec
from analysis.tables.load import Tables


def build_streams(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a device and direction; no section without reads or writes."""
    block = results.block
    if block is None or not block.streams:
        return []
    section = Section()
    several = len({r.dev for r in block.streams}) > 1
    rows = [
        (
            f"{results.device.labels.get(r.dev, 'disk')} {r.op}" if several else r.op,
            units.count(r.requests),
            units.percent(r.adjacent / r.requests),
            units.percent(r.in_stream / r.requests),
            units.count(r.streams),
            units.figures(r.mean_requests) if r.mean_requests is not None else "-",
            units.bytes_(r.mean_bytes),
            units.figures(r.parallel),
        )
        for r in block.streams
    ]
    heads = (
        "<of",
        "requests",
        "adjacent %",
        "in stream %",
        "streams",
        "length",
        "bytes",
        "parallel",
    )
    section.tables.append(Table(heads, rows))
    section.definition = (
        streams.DEFINITION
        + " adjacent: the previous request of this direction ended where the request begins."
    )
    return [section]


SECTIONS = (
    SectionSpec(
        "streams",
        "Streams",
        1100,
        build_streams,
        collectors=("block",),
        of_disks=True,
        counts_all=True,
        explains=(SEEKS,),
    ),
)
