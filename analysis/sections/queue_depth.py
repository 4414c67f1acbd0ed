# SPDX-License-Identifier: BSD-2-Clause
"""Queue depth: requests at the device, and requests queued and not completed."""

from __future__ import annotations

import numpy as np

from analysis import units
from analysis.measures.results import Results
from analysis.render.document import Section
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables


def build_queue_depth(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Mean and highest depth, at the device and queued."""
    section = Section()
    depths = results.device.depth
    if depths is None:
        section.absent = run.absent("block")
        return [section]
    weights = results.timeline.lengths_s
    for name, depth in (
        ("at the device", depths.at_device),
        ("queued", depths.queued),
    ):
        mean = float(np.average(depth.mean, weights=weights))
        section.facts.append((name, f"mean {units.figures(mean)}, highest {int(depth.highest.max()):,}"))
    section.notes += bounded_ends(results)
    section.definition = (
        "at the device: requests issued and not completed; queued: queued and not completed; mean over time."
    )
    return [section]


def bounded_ends(results: Results) -> list[str]:
    """A sentence on requests that count until a latest end, as their end was not seen."""
    latency = results.block.latency if results.block is not None else None
    if latency is None or not latency.bounded:
        return []
    return [
        f"{latency.bounded:,} requests whose end was not seen count until their tag was issued again or"
        f" the disk was idle: together {units.ns(latency.bounded_ns)}, an upper bound"
    ]


SECTIONS = (
    SectionSpec(
        "depth",
        "Queue depth",
        1500,
        build_queue_depth,
        collectors=("block",),
        of_disks=True,
        counts_all=True,
        explains=(DEVICE,),
    ),
)
