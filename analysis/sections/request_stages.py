# SPDX-License-Identifier: BSD-2-Clause
"""Request stages (Q2C): means and percentiles of the stages from queue to completion; merges, requeues."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import stages as request_life
from analysis.measures.block.stage_percentiles import PERCENTS, Stage
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables

HEADS = tuple(f"p{p:g}" if p < 100 else "max" for p in PERCENTS)
IN_LATENCY = ("Q2D", "D2C", "Q2C")  # stages whose percentiles by direction are in another section


def _means(life: request_life.StageResults) -> Table | None:
    """The means of all stages, by each way of grouping that has more than one group."""
    stages = life.present
    inserted = "Q2I" in stages
    rows = []
    for group, group_rows in life.groups.items():
        if group != "direction" and len(group_rows) < 2:
            continue  # says nothing that the direction does not
        if group != "direction":
            rows.append((f"by {group}", *[""] * (1 + inserted + len(stages))))
        for r in group_rows:
            rows.append(
                (
                    r.label if group == "direction" else f"  {r.label}",
                    units.count(r.requests),
                    *((units.percent(r.inserted / r.requests),) if inserted else ()),
                    *(units.ns(r.mean_ns(stage)) for stage in stages),
                )
            )
    heads = ("<mean of", "requests", *(("ins. %",) if inserted else ()), *stages)
    return Table(heads, rows) if rows else None


def _percentiles(life: request_life.StageResults) -> Table | None:
    """Of the stages, by each way of grouping; those by direction that another section has are left to it."""
    rows = []
    for group, group_rows in life.groups.items():
        of_direction = group == "direction"
        if not of_direction and len(group_rows) < 2:
            continue
        lines: list[tuple[str, str, Stage]] = []
        for r in group_rows:
            wanted = [s for s in r.stages if (s in IN_LATENCY) != of_direction]
            names = [r.label if of_direction else f"  {r.label}", *[""] * len(wanted)]
            lines += [(name, s, r.stages[s]) for name, s in zip(names, wanted, strict=False)]
        if lines and not of_direction:
            rows.append((f"by {group}", *[""] * (2 + len(PERCENTS))))
        rows += [
            (name, s, units.count(stage.requests), *(units.ns(v) for v in stage.at_ns))
            for name, s, stage in lines
        ]
    return Table(("<of", "<stage", "requests", *HEADS), rows) if rows else None


def _merges(life: request_life.StageResults) -> list[Table]:
    """Merging and requeueing, and the stages of merged bios where they are known."""
    rows = [
        (
            r.op,
            units.count(r.requests),
            units.count(r.merged_requests),
            units.count(r.merges),
            units.figures((r.requests + r.merges) / r.requests),
            units.count(r.most_merges + 1),
            units.count(r.requeued_requests),
            units.count(r.requeues),
        )
        for r in life.merges
    ]
    heads = ("<op", "requests", "merged", "merges", "bios each", "most", "requeued", "requeues")
    tables = [Table(heads, rows)] if rows else []
    timed = [
        (r.op, units.count(r.timed_merges), units.ns(r.q2m_ns), units.ns(r.m2d_ns))
        for r in life.merges
        if r.timed_merges
    ]
    if timed:
        tables.append(Table(("<merged bios", "merges", "Q2M mean", "M2D mean"), timed))
    return tables


def _missing(life: request_life.StageResults, no_plugs: bool) -> list[str]:
    """Stages that the source of the requests does not record."""
    missing = [] if "Q2G" in life.present or not life.present else ["Q2G", "G2I"]
    if any(r.merges for r in life.merges) and not any(r.timed_merges for r in life.merges):
        missing += ["Q2M", "M2D"]
    return [*missing, *(["plug sizes"] if no_plugs else [])]


def _why_missing(run: Run) -> str:
    """How to record the missing stages, unless this run did so already."""
    if run.imported:
        return request_life.NOT_TRACED
    trace = run.losses.get("blktrace")
    if trace is not None and trace.is_on:
        return f"{request_life.NOT_RECORDED}; {request_life.IN_TRACE}"
    if "blktrace" in run.asked:  # it is off: the first lines say why
        return request_life.NOT_RECORDED
    return f"{request_life.NOT_RECORDED}; {request_life.TO_TRACE}"


def build_stages(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Stages by direction, class, process and size; merges and requeues."""
    if results.block is None or not results.device.utilization:
        return []
    section = Section()
    life = results.block.stages
    section.tables += [table for table in (_means(life), _percentiles(life)) if table]
    section.tables += _merges(life)
    if life.present and "Q2I" not in life.present:
        section.notes.append("no request was inserted into a scheduler: there is no Q2I and no I2D")
    if missing := _missing(life, results.block.plugs is None):
        section.notes.append(f"{', '.join(missing)}: {_why_missing(run)}")
    section.definition = (
        request_life.DEFINITION
        + " merged: requests of more than one bio; merges: bios beyond each request's first; requeued:"
        " requests that the driver gave back, once or more."
    )
    return [section]


SECTIONS = (
    SectionSpec(
        "stages",
        "Request stages (Q2C)",
        1600,
        build_stages,
        collectors=("block",),
        of_disks=True,
        counts_all=True,
        explains=(DEVICE,),
    ),
)
