# SPDX-License-Identifier: BSD-2-Clause
"""How the time of emulated disks divides: seeking, rotating, transferring, overhead, idle."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from analysis.figures import style
from analysis.figures.axes import Handle
from analysis.figures.disk_rows import HIGH, base_of, height_in, more_disks, name_rows, shown_disks
from analysis.figures.panel import Graph, Panel
from analysis.measures.disk.states import WORDS, State


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    disks = shown_disks(graph)
    edges = graph.results.timeline.edges_s
    for number, disk in enumerate(disks):
        bottom = base_of(number, len(disks))
        base = bottom + 0 * disk.series[State.IDLE]
        for state in State:
            top = base + HIGH * disk.series[state]
            look = style.DISK_STATE[WORDS[state]]
            hatch = style.DISK_STATE_HATCH.get(WORDS[state])
            ink = style.QUIET if hatch else look
            ax.stairs(top, edges, baseline=base, fill=True, fc=look, ec=ink, hatch=hatch, lw=0)
            ax.stairs(base, edges, baseline=None, color="white", lw=0.4)
            base = top
    name_rows(ax, disks)
    if len(disks) == 1:
        ax.set_yticks([0, HIGH / 2, HIGH])
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value / HIGH:.0f}"))
    return [_patch(WORDS[state]) for state in reversed(State)]


def _patch(word: str) -> Patch:
    hatch = style.DISK_STATE_HATCH.get(word)
    color = style.DISK_STATE[word]
    return Patch(label=word, fc=color, ec=style.QUIET if hatch else color, hatch=hatch, lw=0)


PANEL = Panel(
    key="disk_time",
    order=56,
    height_in=lambda graph: height_in(graph, 0.95),
    collectors=("disk_service",),
    needs=lambda results: results.disks,
    title=lambda graph: f"What the disk did, % of time, by its own record{more_disks(graph)}",
    draw=_draw,
)
