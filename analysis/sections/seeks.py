# SPDX-License-Identifier: BSD-2-Clause
"""Seeks: count, rate and distance, by operation and class."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import seeks, throughput
from analysis.measures.block.request_owners import Owners
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import SEEKS, SectionSpec
from analysis.tables.load import Tables

SEEKS_OWN = ("seeks,\nown", "&\nall", "seeks/s,\nown", "&\nall")


def build_seeks(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Counts, rates and shares; then distances of the seeks."""
    section = Section()
    if results.block is None:
        section.absent = run.absent("block")
        return [section]
    elapsed = results.window.elapsed_s
    names = [n for n in results.block.seeks.summaries if results.block.seeks.summaries[n].requests]
    owners = results.block.disk_owners if results.shared_owners is not None else None
    counts, distances = [], []
    for name in names:
        s = results.block.seeks.summaries[name]
        own = () if owners is None else (_own_seeks(owners, name),)
        counts.append(
            (
                name,
                units.count(s.requests),
                *(units.count(seeks) for seeks in own),
                units.count(s.seeks),
                *(units.rate(seeks / elapsed) for seeks in own),
                units.rate(s.seeks / elapsed),
                units.percent(s.share(s.seeks)),
                units.percent(s.share(s.sequential)),
                units.percent(s.share(s.near_ahead)),
                units.percent(s.share(s.near_back)),
            )
        )
        if s.seeks:
            distances.append((name, *(units.bytes_(v) for v in (*s.signed_bytes, *s.absolute_bytes))))
    if not names:
        section.notes.append("no reads or writes with data: no seeks")
        section.definition = seeks.DEFINITION
        return [section]
    columns = ("seeks", "seeks/s") if owners is None else SEEKS_OWN
    near = ("near ahead %", "near back %") if owners is None else ("near\nahead %", "near\nback %")
    section.tables.append(Table(("<of", "requests", *columns, "seek %", "sequential %", *near), counts))
    if distances:
        signed = [f"p{p:g}" for p in seeks.SIGNED_PERCENTS]
        absolute = [f"|p{p:g}|" if p < 100 else "|max|" for p in seeks.ABSOLUTE_PERCENTS]
        split = 1 + len(signed)
        section.tables.append(Table(("<signed distance", *signed), [row[:split] for row in distances]))
        section.tables.append(
            Table(("<absolute distance", *absolute), [(row[0], *row[split:]) for row in distances])
        )
    if (mean := results.block.seeks.mean_per_s) is not None:
        section.notes.append(
            f"seeks/s over bins of {results.timeline.width_ns / 1e9:g} s: {units.mean(mean)} (mean, 95 %"
            f" confidence interval over {mean.n} bins, as if they were independent)"
        )
    section.definition = (
        seeks.DEFINITION + " |p|: percentile of the distance without its sign. %: of the requests with a"
        " previous request on their device."
    )
    if owners is not None:
        section.definition += (
            " own: seeks of the workload's requests; all other numbers count all requests on the disk."
        )
    return [section]


def _own_seeks(owners: Owners, name: str) -> int:
    """The workload's seeks of a row: of all, an operation or a class."""
    if name in throughput.OPS:
        return owners.own(op=name)[2]
    return owners.own(class_=None if name == "all" else name)[2]


SECTIONS = (
    SectionSpec(
        "seeks",
        "Seeks",
        900,
        build_seeks,
        essential=True,
        collectors=("block",),
        of_disks=True,
        explains=(SEEKS,),
    ),
)
