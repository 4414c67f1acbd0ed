# SPDX-License-Identifier: BSD-2-Clause
"""The disk offset panels of the IO graph: one operation each, on one disk axis."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis import units
from analysis.figures import axes
from analysis.figures.axes import Handle
from analysis.figures.panel import Graph, Panel

EMPTY_IN = 0.6


def make_panel(key: str, order: int, op: str, is_first: bool) -> Panel:
    """The panel of one operation. is_first: without any disk map, this panel stands for both."""

    def height(graph: Graph) -> float:
        if graph.map is None:
            return EMPTY_IN if is_first else 0.0
        return graph.map.height_in(op)

    def title(graph: Graph) -> str:
        return "Disk offset" if graph.map is None else graph.map.title(op) + graph.map_of

    def empty(graph: Graph) -> str:
        return "no request moved any bytes" if graph.map is None else graph.map.absent(op)

    def draw(ax: Axes, graph: Graph) -> list[Handle]:
        if graph.devices is not None:
            return graph.devices.draw(ax, op, graph.plot_in)
        disk = graph.disk
        if disk is None:
            return []
        handles = disk.draw(ax, op, disk.ranges())
        disk.annotate(ax, disk.height_in(op))
        if graph.bands is not None:
            graph.bands.draw(ax, disk, op, graph.plot_in, disk.height_in(op))
        return handles

    def legend(ax: Axes, graph: Graph, handles: list[Handle]) -> None:
        """At the right of the strip of the whole disk."""
        if graph.map is not None:
            total = units.bytes_(float(graph.map.bytes_[op]))
            axes.legend(ax, handles, f"total {total},\nper cell:", right=1.09)

    return Panel(
        key=key,
        order=order,
        height_in=height,
        collectors=("block",),
        needs=lambda results: results.block,
        title=title,
        draw=draw,
        empty=empty,
        legend=legend,
    )
