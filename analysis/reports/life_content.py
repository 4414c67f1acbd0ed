# SPDX-License-Identifier: BSD-2-Clause
"""Sections on the life of requests, merging and requeueing, and the device's active and idle times."""

from __future__ import annotations

from analysis import units
from analysis.measures import busy, request_life
from analysis.measures.measured import Measured
from analysis.reports import about
from analysis.reports.document import Section, Table
from analysis.run import Run


def life_section(run: Run, m: Measured) -> Section:
    """Means of the stages by direction, class, process and size; merges and requeues."""
    section = Section("Request life", mark=about.mark(run, "block"))
    if m.block_life is None:
        return section
    life = m.block_life.life
    rows = []
    for group, found in life.groups.items():
        if group != "direction" and len(found) < 2:
            continue  # says nothing that the direction does not
        if group != "direction":
            rows.append((f"by {group}", *[""] * (8 if life.any_inserted else 5)))
        for r in found:
            stages = (r.q2i_ns, r.i2d_ns) if life.any_inserted else ()
            inserted = (units.percent(r.inserted / r.requests),) if life.any_inserted else ()
            rows.append(
                (
                    r.label if group == "direction" else f"  {r.label}",
                    units.count(r.requests),
                    *inserted,
                    *(units.ns(v) for v in (*stages, r.q2d_ns, r.d2c_ns, r.q2c_ns, r.q2c_p99_ns)),
                )
            )
    if rows:
        more = ("ins. %", "Q2I", "I2D") if life.any_inserted else ()
        heads = ("<of", "requests", *more, "Q2D", "D2C", "Q2C", "p99")
        section.tables.append(Table(heads, rows))
    if life.merges:
        merges = [
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
        section.tables.append(Table(heads, merges))
    if rows and not life.any_inserted:
        section.notes.append("no request was seen being inserted: there is no Q2I and no I2D")
    section.notes.append(request_life.NOT_RECORDED)
    section.definition = (
        request_life.DEFINITION
        + " merged: requests of more than one bio; merges: bios beyond each request's first; requeued: given"
        " back by the driver, once or more."
    )
    return section


def busy_section(run: Run, m: Measured) -> Section:
    """Active and idle periods, and the time at each depth, by device."""
    section = Section("Active, idle and depth", mark=about.mark(run, "block"))
    if m.block_life is None:
        return section
    periods, depths = [], []
    shown = max(
        (i for one in m.block_life.busy.values() for i, share in enumerate(one.shares) if share), default=0
    )
    for number, one in m.block_life.busy.items():
        label = m.block_life.labels[number]
        for i, (name, p) in enumerate((("active", one.active), ("idle", one.idle))):
            periods.append(
                (
                    label if i == 0 else "",
                    name,
                    units.percent(p.total_ns / one.span_ns),
                    units.count(p.count),
                    units.ns(p.total_ns / p.count if p.count else None),
                    *(units.ns(v) for v in (p.p50_ns, p.p99_ns, p.longest_ns)),
                )
            )
        shares = [units.percent(share) for share in one.shares[: shown + 1]]
        depths.append((label, units.figures(one.mean_depth), *shares))
    heads = ("<device", "<", "% of time", "periods", "mean", "p50", "p99", "longest")
    section.tables.append(Table(heads, periods))
    names = []
    for low, high in zip(busy.DEPTHS, (*busy.DEPTHS[1:], None), strict=True):
        names.append(f"{low}+" if high is None else str(low) if high == low + 1 else f"{low}-{high - 1}")
    section.tables.append(Table(("<% of time at depth", "mean", *names[: shown + 1]), depths))
    section.definition = busy.DEFINITION
    return section


def sections(run: Run, m: Measured) -> list[Section]:
    """Both; none without requests, which the sections before say."""
    if m.block_life is None or not m.block_life.busy:
        return []
    return [life_section(run, m), busy_section(run, m)]
