# SPDX-License-Identifier: BSD-2-Clause
"""File-system events over time: a row a kind, as dark as the share of the time in which one was under way."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from analysis.figures import style
from analysis.figures.axes import Handle
from analysis.figures.panel import Graph, Panel
from analysis.measures.origin.events import EventResults

ROW_IN = 0.16
MOST_ROWS = 8
NOT_DRAWN = ("readahead", "writeback_inode", "bdev_flush")  # parts of other events, or everywhere
LEAST_SHARE = 0.3  # a short event is still seen
INK = LinearSegmentedColormap.from_list("events", ["#FFFFFF", style.INK])


def _shown(graph: Graph) -> list[str]:
    events = graph.results.origins.events
    return _kinds(events) if events is not None else []


def _kinds(events: EventResults) -> list[str]:
    """The kinds with most time; a kind without lengths is not drawn."""
    return [row.kind for row in events.rows if row.max_ns and row.kind not in NOT_DRAWN][:MOST_ROWS]


def _height_in(graph: Graph) -> float:
    return ROW_IN * len(_shown(graph))


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    events, kinds = graph.results.origins.events, _shown(graph)
    if events is None:
        return []
    shares = np.array([events.covered[kind] for kind in kinds])
    shares = np.where(shares > 0, np.maximum(shares, LEAST_SHARE), 0)
    edges = np.arange(len(kinds) + 1)
    ax.pcolormesh(graph.results.timeline.edges_s, edges, shares, cmap=INK, vmin=0, vmax=1, rasterized=True)
    ax.set_ylim(len(kinds), 0)
    ax.set_yticks(edges[:-1] + 0.5, labels=[""] * len(kinds))
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    for y in edges[1:-1]:
        ax.axhline(y, color=style.GRID, lw=0.6)
    for y, kind in enumerate(kinds):
        ax.text(1.01, y + 0.5, kind, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
    return []


def _no_legend(ax: Axes, graph: Graph, handles: list[Handle]) -> None:
    """The rows have their names beside them."""


PANEL = Panel(
    key="events",
    order=35,
    height_in=_height_in,
    collectors=("events",),
    needs=lambda results: results.origins.events,
    title=lambda _: "File-system events: share of the time under way (white: none; black: all)",
    draw=_draw,
    legend=_no_legend,
)
