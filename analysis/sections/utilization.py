# SPDX-License-Identifier: BSD-2-Clause
"""Device utilization: active and idle periods, and the time at each queue depth, by device."""

from __future__ import annotations

from analysis import units
from analysis.measures.device import utilization
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.queue_depth import bounded_ends
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables


def build_utilization(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Active and idle periods, and the time at each depth, by device."""
    if not results.device.utilization:
        return []
    section = Section()
    periods, depths = [], []
    utilizations = results.device.utilization
    shown = max(
        (i for device in utilizations.values() for i, share in enumerate(device.shares) if share), default=0
    )
    for number, device in utilizations.items():
        label = results.device.labels[number]
        for i, (name, p) in enumerate((("active", device.active), ("idle", device.idle))):
            periods.append(
                (
                    label if i == 0 else "",
                    name,
                    units.percent(p.total_ns / device.span_ns),
                    units.count(p.count),
                    units.ns(p.total_ns / p.count if p.count else None),
                    *(units.ns(v) for v in (p.p50_ns, p.p99_ns, p.longest_ns)),
                )
            )
        shares = [units.percent(share) for share in device.shares[: shown + 1]]
        depths.append((label, units.figures(device.mean_depth), *shares))
    heads = ("<device", "<", "% of time", "periods", "mean", "p50", "p99", "longest")
    section.tables.append(Table(heads, periods))
    names = []
    for low, high in zip(utilization.DEPTHS, (*utilization.DEPTHS[1:], None), strict=True):
        names.append(f"{low}+" if high is None else str(low) if high == low + 1 else f"{low}-{high - 1}")
    section.tables.append(Table(("<% of time at depth", "mean", *names[: shown + 1]), depths))
    section.notes += bounded_ends(results)
    section.definition = utilization.DEFINITION
    return [section]


SECTIONS = (
    SectionSpec(
        "utilization",
        "Device utilization",
        1800,
        build_utilization,
        collectors=("block",),
        of_disks=True,
        counts_all=True,
        explains=(DEVICE,),
    ),
)
