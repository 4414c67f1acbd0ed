# SPDX-License-Identifier: BSD-2-Clause
"""Latency over time by operation: median, 99th percentile and longest of each time bin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures import style
from analysis.figures.axes import Handle, any_finite, legend_line, log_times
from analysis.measures.block.latency import LatencySeries
from analysis.measures.results import Results

LOWEST_NS = 100.0  # of the axis
MARKER = {"write": ".", "read": "x"}
Series = Mapping[str, LatencySeries]  # by operation


def present(series: Series) -> Series:
    """The operations with at least one value."""
    return {op: one for op, one in series.items() if any_finite(one.p50_ns)}


def draw(ax: Axes, results: Results, series: Series, also: Iterable[Series] = ()) -> list[Handle]:
    """Draw the series that are present; the axis has room for those of `also`."""
    edges, middles = results.timeline.edges_s, results.timeline.middles_s
    handles: list[Handle] = []
    for op, one in present(series).items():
        color, dash, marker = style.OP[op], style.OP_DASH[op], MARKER[op]
        ax.stairs(one.p50_ns, edges, baseline=None, color=color, lw=1.6, ls=dash)
        ax.stairs(one.p99_ns, edges, baseline=None, color=color, lw=0.8, ls=dash, alpha=0.85)
        ax.plot(middles, one.max_ns, marker, color=color, ms=2.6, alpha=0.7, mew=0.6)
        handles += [
            legend_line(color, f"{op} p50", 2.0, dash),
            legend_line(color, f"{op} p99", 0.8, dash),
            Line2D([], [], color=color, marker=marker, ms=4, lw=0, label=f"{op} max"),
        ]
    low, high = np.inf, 0.0
    for drawn in (series, *also):
        for one in present(drawn).values():
            low = min(low, float(np.nanmin(one.p50_ns)))
            high = max(high, float(np.nanmax(one.max_ns)))
    low = max(low, LOWEST_NS)
    log_times(ax, low / 1.6, max(high, low * 10) * 1.6)
    return handles
