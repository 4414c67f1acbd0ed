# SPDX-License-Identifier: BSD-2-Clause
"""A value of several devices over time: a line each; of many the range, the median and the highest device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures import style
from analysis.figures.axes import Handle, from_zero, legend_line
from analysis.figures.panel import Graph, Panel
from analysis.measures.common.timeline import F64
from analysis.measures.device.by_time import DeviceSeries

MOST_LINES = len(style.DISKS)
NAME_LETTERS = 20

Value = Callable[[DeviceSeries], F64]


def make_panel(key: str, order: int, title: str, height_in: float, value: Value, top: float = 0.0) -> Panel:
    """The panel of one value, left out of a run on one device. top: least upper end of the axis."""

    def draw(ax: Axes, graph: Graph) -> list[Handle]:
        return draw_lines(ax, graph, value, top)

    return Panel(
        key=key,
        order=order,
        height_in=lambda graph: height_in if graph.results.device.series else 0.0,
        collectors=("block",),
        needs=lambda results: results.block,
        title=lambda graph: f"{title}, {by_disk(graph)}",
        draw=draw,
    )


def by_disk(graph: Graph) -> str:
    """What the lines are, for the title."""
    disks = len(graph.results.device.series)
    return "by disk" if disks <= MOST_LINES else f"of {disks} disks"


def draw_lines(ax: Axes, graph: Graph, value: Value, top: float = 0.0) -> list[Handle]:
    """Draw the value of all devices; returns the legend's entries."""
    edges = graph.results.timeline.edges_s
    series = graph.results.device.series
    values = np.array([value(one) for one in series])
    handles: list[Handle] = []
    if len(series) <= MOST_LINES:
        for one, line, (color, dash) in zip(series, values, style.DISKS, strict=False):
            ax.stairs(line, edges, baseline=None, color=color, lw=1.2, ls=dash)
            handles.append(legend_line(color, _name(one), 1.2, dash))
    else:
        highest = int(values.mean(axis=1).argmax())
        ax.stairs(
            values.max(axis=0), edges, baseline=values.min(axis=0), fill=True, color=style.DISK_SPREAD, lw=0
        )
        ax.stairs(values[highest], edges, baseline=None, color=style.DISK_BUSIEST, lw=1.0, ls=style.DASHED)
        ax.stairs(np.median(values, axis=0), edges, baseline=None, color=style.DISK_MIDDLE, lw=1.4)
        handles = [
            Patch(color=style.DISK_SPREAD, label="lowest to highest disk"),
            legend_line(style.DISK_MIDDLE, "median of the disks"),
            legend_line(style.DISK_BUSIEST, f"{_name(series[highest])}: highest mean", 1.0, style.DASHED),
        ]
    from_zero(ax, max(float(values.max(initial=0.0)), top), 3)
    return handles


def _name(series: DeviceSeries) -> str:
    name = series.name
    return name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 3] + "..."
