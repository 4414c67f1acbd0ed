# SPDX-License-Identifier: BSD-2-Clause
"""Where the head of emulated disks was: cylinders per time bin, as range, middle four fifths and median."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.figures import style
from analysis.figures.axes import Handle, legend_line, number
from analysis.figures.disk_rows import HIGH, base_of, height_in, more_disks, name_rows, shown_disks
from analysis.figures.panel import Graph, Panel


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    disks = shown_disks(graph)
    edges = graph.results.timeline.edges_s
    is_one = len(disks) == 1
    for row, disk in enumerate(disks):
        scale = 1.0 if is_one else HIGH / max(disk.cylinders, 1)
        low, tenth, middle, ninth, high = base_of(row, len(disks)) * (not is_one) + scale * disk.positions
        # a band of no height could not be seen
        least = 0.004 * (max(disk.cylinders, 1) if is_one else 1)
        ax.stairs(high + least, edges, baseline=low - least, fill=True, color=style.DISK_SPREAD, lw=0)
        ax.stairs(ninth + least, edges, baseline=tenth - least, fill=True, color=style.HEAD_MIDDLE, lw=0)
        ax.stairs(middle, edges, baseline=None, color=style.DISK_MIDDLE, lw=1.1)
    if is_one:
        ax.set_ylim(0, max(disks[0].cylinders, 1) * 1.04)
        ax.yaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 2.5, 5, 10], integer=True))
        ax.yaxis.set_major_formatter(FuncFormatter(number))
    else:
        name_rows(ax, disks)
    return [
        legend_line(style.DISK_MIDDLE, "median", 1.1),
        Patch(color=style.HEAD_MIDDLE, label="10 to 90 %"),
        Patch(color=style.DISK_SPREAD, label="lowest to highest"),
    ]


def _title(graph: Graph) -> str:
    highest = max((disk.cylinders for disk in shown_disks(graph)), default=0)
    served = f"cylinders that it served, 0 outside, to {max(highest - 1, 0):,}"
    return f"Head position: {served}{more_disks(graph)}"


PANEL = Panel(
    key="head_position",
    order=57,
    height_in=lambda graph: height_in(graph, 0.95),
    collectors=("disk_service",),
    needs=lambda results: results.disks,
    title=_title,
    draw=_draw,
)
