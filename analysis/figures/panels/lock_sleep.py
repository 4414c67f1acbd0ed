# SPDX-License-Identifier: BSD-2-Clause
"""Mean number of threads asleep on a lock, stacked by lock."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import lock_series
from analysis.figures.axes import Handle
from analysis.figures.panel import Graph, Panel


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    waits = graph.results.locks.waits
    if waits is None:
        return []
    return lock_series.draw_stacked(ax, graph, waits, waits.sleep_series, 1.0)


PANEL = Panel(
    key="lock_sleep",
    order=70,
    height_in=0.8,
    collectors=("locks",),
    needs=lambda results: results.locks.sleeping_threads,
    title=lambda _: "Threads asleep on locks (seconds waited per second), by lock",
    draw=_draw,
    legend=lock_series.legend,
)
