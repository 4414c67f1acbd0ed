# SPDX-License-Identifier: BSD-2-Clause
"""Request latency (Q2C) by operation: median, 99th percentile and longest of each time bin."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures import style
from analysis.figures.axes import Handle, any_finite, legend_line, log_times
from analysis.figures.panel import Graph, Panel, no_requests
from analysis.measures.block.latency import LatencySeries

LOWEST_NS = 100.0  # of the axis
MARKER = {"write": ".", "read": "x"}


def _series(graph: Graph) -> dict[str, LatencySeries]:
    """By operation, those with at least one value."""
    block = graph.results.block
    if block is None:
        return {}
    return {op: series for op, series in block.latency.series.items() if any_finite(series.p50_ns)}


def _empty(graph: Graph) -> str:
    return no_requests(graph) or ("" if _series(graph) else "no request was seen to complete")


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    edges, middles = graph.results.timeline.edges_s, graph.results.timeline.middles_s
    handles: list[Handle] = []
    low, high = np.inf, 0.0
    for op, series in _series(graph).items():
        color, dash, marker = style.OP[op], style.OP_DASH[op], MARKER[op]
        ax.stairs(series.p50_ns, edges, baseline=None, color=color, lw=1.6, ls=dash)
        ax.stairs(series.p99_ns, edges, baseline=None, color=color, lw=0.8, ls=dash, alpha=0.85)
        ax.plot(middles, series.max_ns, marker, color=color, ms=2.6, alpha=0.7, mew=0.6)
        handles += [
            legend_line(color, f"{op} p50", 2.0, dash),
            legend_line(color, f"{op} p99", 0.8, dash),
            Line2D([], [], color=color, marker=marker, ms=4, lw=0, label=f"{op} max"),
        ]
        low = min(low, float(np.nanmin(series.p50_ns)))
        high = max(high, float(np.nanmax(series.max_ns)))
    low = max(low, LOWEST_NS)
    log_times(ax, low / 1.6, max(high, low * 10) * 1.6)
    return handles


PANEL = Panel(
    key="request_latency",
    order=50,
    height_in=1.35,
    collectors=("block",),
    needs=lambda results: results.block,
    title=lambda graph: f"Request latency from queue to completion (Q2C){graph.all_disks}",
    draw=_draw,
    empty=_empty,
    compared_height_in=1.4,
)
