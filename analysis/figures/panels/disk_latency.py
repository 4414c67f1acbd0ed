# SPDX-License-Identifier: BSD-2-Clause
"""Latency of the disks below a volume (D2C), on the axis of the volume's own (request_latency.py)."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import latency_lines
from analysis.figures.axes import Handle
from analysis.figures.panel import Graph, Panel, no_requests


def _height_in(graph: Graph) -> float:
    below = graph.results.below
    return 1.35 if below is not None and latency_lines.present(below.latency) else 0.0


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    results = graph.results
    if results.below is None or results.block is None:
        return []
    return latency_lines.draw(ax, results, results.below.latency, [results.block.latency.series])


PANEL = Panel(
    key="disk_latency",
    order=52,
    height_in=_height_in,
    collectors=("block",),
    needs=lambda results: results.block,
    title=lambda graph: f"Latency of {graph.disks} from issue to completion (D2C)",
    draw=_draw,
    empty=no_requests,
)
