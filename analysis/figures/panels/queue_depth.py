# SPDX-License-Identifier: BSD-2-Clause
"""Queue depth: requests at the device, mean and highest, and with them those that are queued.

Of several disks: the mean of each, as their sum tells nothing about one of them.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures import style
from analysis.figures.axes import Handle, from_zero, legend_line
from analysis.figures.device_lines import by_disk, draw_lines
from analysis.figures.panel import Graph, Panel, no_disk_requests


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    depth = graph.results.device.depth
    if graph.results.device.series:
        return draw_lines(ax, graph, lambda disk: disk.depth)
    if depth is None:
        return []
    edges = graph.results.timeline.edges_s
    ax.stairs(depth.queued.mean, edges, fill=True, color=style.QUEUED, lw=0)
    ax.stairs(depth.at_device.mean, edges, baseline=None, color=style.DEPTH, lw=1.3)
    ax.stairs(
        depth.at_device.highest, edges, baseline=None, color=style.DEPTH_HIGHEST, lw=0.8, ls=style.DASHED
    )
    from_zero(ax, float(max(depth.queued.mean.max(), depth.at_device.highest.max())), 3)
    return [
        legend_line(style.DEPTH, "at device, mean"),
        legend_line(style.DEPTH_HIGHEST, "at device, highest", 0.8, style.DASHED),
        Patch(color=style.QUEUED, label="at device or queued, mean"),
    ]


def _title(graph: Graph) -> str:
    if not graph.results.device.series:
        return "Queue depth, requests"
    return f"Queue depth, requests at the device (mean), {by_disk(graph)}"


PANEL = Panel(
    key="queue_depth",
    order=60,
    height_in=0.75,
    collectors=("block",),
    needs=lambda results: results.block,
    title=_title,
    draw=_draw,
    empty=no_disk_requests,
)
