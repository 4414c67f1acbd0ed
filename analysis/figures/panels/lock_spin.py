# SPDX-License-Identifier: BSD-2-Clause
"""Share of all CPU time spent spinning on locks, stacked by lock."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import lock_series
from analysis.figures.axes import Handle
from analysis.figures.panel import Graph, Panel


def _empty(graph: Graph) -> str:
    known = graph.results.locks.spin_pct is not None
    return "" if known else "run.json lacks the number of CPUs"


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    waits = graph.results.locks.waits
    if waits is None:
        return []
    return lock_series.draw_stacked(ax, graph, waits, waits.spin_series, 100 / (graph.run.cpus or 1))


PANEL = Panel(
    key="lock_spin",
    order=80,
    height_in=0.8,
    collectors=("locks",),
    needs=lambda results: results.locks.sleeping_threads,
    title=lambda _: "Spinning on locks, % of CPU time, by lock",
    draw=_draw,
    empty=_empty,
    legend=lock_series.legend,
)
