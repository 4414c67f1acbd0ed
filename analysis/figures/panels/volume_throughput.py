# SPDX-License-Identifier: BSD-2-Clause
"""Throughput of the volume that the file system is on: its bytes by class.

The scale is that of the disks' panel, unless the disks moved many times as much (a resync).
"""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import throughput_bars as bars
from analysis.figures.axes import Handle
from analysis.figures.panel import Graph, Panel
from analysis.figures.throughput_bars import SIGN
from analysis.measures.results import Results

MOST_TIMES = 3  # the disks' bytes over the volume's, on one scale
OWN_SCALE = ", own scale"


def _title(graph: Graph) -> str:
    below = graph.results.below
    subject = f"Throughput of the {below.volume}" if below is not None else "Throughput"
    is_own = not _is_shared(graph.results)
    return f"{subject}, MB/s: {bars.directions(graph.results, is_own)}{OWN_SCALE if is_own else ''}"


def _is_shared(results: Results) -> bool:
    """Whether the scale is that of the disks' panel."""
    return sum(bars.heights(results)) <= MOST_TIMES * sum(bars.heights(results, asked=True))


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    results = graph.results
    used: set[str] = set()
    for op in SIGN:
        used |= bars.draw_classes(ax, results, bars.asked_mb_s(results), op)
        bars.draw_application(ax, results, op)
    own = bars.draw_own(ax, results, "volume")
    bars.scale(ax, *bars.heights(results, asked=not _is_shared(results)))
    return [bars.application_entry(results), *bars.class_entries(used, "volume"), *own]


PANEL = Panel(
    key="volume_throughput",
    order=28,
    height_in=lambda graph: 1.45 if graph.results.below is not None else 0.0,
    collectors=("block", "calls"),
    needs=lambda results: results.block,
    title=_title,
    draw=_draw,
)
