# SPDX-License-Identifier: BSD-2-Clause
"""Request latency (Q2C) by operation: median, 99th percentile and longest of each time bin.

On a volume: of the volume's bios, which is what the file system waited for; disk_latency.py has the disks.
"""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import latency_lines
from analysis.figures.axes import Handle
from analysis.figures.panel import Graph, Panel, no_requests
from analysis.measures.block.latency import LatencySeries


def _series(graph: Graph) -> dict[str, LatencySeries]:
    """By operation: of the volume's bios, else of the disks' requests."""
    return graph.results.block.latency.series if graph.results.block is not None else {}


def _empty(graph: Graph) -> str:
    seen = latency_lines.present(_series(graph))
    return no_requests(graph) or ("" if seen else "no request was seen to complete")


def _title(graph: Graph) -> str:
    if graph.results.below is not None:
        return f"Latency of the {graph.results.below.volume} from queue to completion (Q2C)"
    return f"Request latency from queue to completion (Q2C){graph.all_disks}"


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    below = graph.results.below
    return latency_lines.draw(ax, graph.results, _series(graph), [below.latency] if below is not None else [])


PANEL = Panel(
    key="request_latency",
    order=50,
    height_in=1.35,
    collectors=("block",),
    needs=lambda results: results.block,
    title=_title,
    draw=_draw,
    empty=_empty,
    compared_height_in=1.4,
)
