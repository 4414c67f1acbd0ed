# SPDX-License-Identifier: BSD-2-Clause
"""Throughput of the disks: bytes per second, stacked by class; lines of the application, and of a volume."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import style
from analysis.figures import throughput_bars as bars
from analysis.figures.axes import Handle, legend_line
from analysis.figures.panel import Graph, Panel, no_requests
from analysis.figures.throughput_bars import SIGN

APPLICATION_BOUND = f"{bars.APPLICATION_AT_LEAST}: a lower bound, some of its bytes are not counted."


def _title(graph: Graph) -> str:
    directions = bars.directions(graph.results)
    if graph.results.below is not None:
        return f"Throughput of {graph.disks}, MB/s: {directions}"
    return f"Throughput, MB/s (10⁶ bytes): {directions}"


def _height_in(graph: Graph) -> float:
    below = graph.results.below
    return 1.45 if below is None or below.has_requests else 0.0


def _empty(graph: Graph) -> str:
    return no_requests(graph) if graph.results.app.mb_s is None else ""


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    results = graph.results
    used: set[str] = set()
    for op, sign in SIGN.items():
        used |= bars.draw_classes(ax, results, bars.disks_mb_s(results), op)
        above = sign * bars.total(bars.asked_mb_s(results), op, results)
        if results.below is not None and above.any():
            bars.draw_line(ax, results, above, style.ABOVE, 1.2, 2.6, style.ABOVE_DASH)
        bars.draw_application(ax, results, op)
    own = bars.draw_own(ax, results, "device") if results.below is None else []
    bars.scale(ax, *bars.heights(results))
    handles: list[Handle] = [bars.application_entry(results)]
    if results.below is not None:
        handles.append(legend_line(style.ABOVE, results.below.volume, 1.2, style.ABOVE_DASH))
    return [*handles, *bars.class_entries(used, "device"), *own]


PANEL = Panel(
    key="throughput",
    order=30,
    height_in=_height_in,
    collectors=("block", "calls"),
    needs=lambda results: results.block if results.block is not None else results.app.mb_s,
    title=_title,
    draw=_draw,
    empty=_empty,
    compared_height_in=1.45,
    per_second=True,
)
