# SPDX-License-Identifier: BSD-2-Clause
"""What the workload's threads do: on a CPU, ready for one, or asleep for which group of causes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures import style
from analysis.figures.axes import Handle, from_zero
from analysis.figures.panel import Graph, Panel
from analysis.measures.threads.over_time import SERIES

HEIGHT_IN = 0.95
LEAST_IN_LEGEND = 0.01  # of the panel's highest value
LABELS = {
    "user": "own code",
    "kernel": "in the kernel",
    "ready": "ready for a CPU",
    "read": "reading",
    "write": "writes, pages, flushes",
    "journal": "journal or log",
    "lock": "lock",
    "throttle": "dirty throttling",
    "memory": "memory",
    "other": "other, unknown",
}


def _height(graph: Graph) -> float:
    threads = graph.results.threads
    return HEIGHT_IN if threads is not None and threads.over_time else 0.0


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    threads, edges = graph.results.threads, graph.results.timeline.edges_s
    if threads is None:
        return []
    base = np.zeros(graph.results.timeline.bins)
    highest = float(np.sum(list(threads.over_time.values()), axis=0).max(initial=0.0))
    handles: list[Handle] = []
    for key in (key for key in SERIES if key in threads.over_time):
        top = base + threads.over_time[key]
        color, hatch = style.THREADS[key], style.THREADS_HATCH.get(key)
        ink = style.QUIET if hatch else color
        ax.stairs(top, edges, baseline=base, fill=True, fc=color, ec=ink, hatch=hatch, lw=0)
        # a white edge: in greyscale, neighbours may be equally dark
        ax.stairs(base, edges, baseline=None, color="white", lw=0.4)
        if (top - base).max(initial=0.0) >= LEAST_IN_LEGEND * highest:
            handles.append(Patch(label=LABELS[key], fc=color, ec=ink, hatch=hatch, lw=0))
        base = top
    from_zero(ax, float(base.max(initial=0.0)), 3)
    return handles[::-1]


def _legend(ax: Axes, _: Graph, handles: list[Handle]) -> None:
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.06), fontsize=7, handlelength=1.2)


PANEL = Panel(
    key="thread_states",
    order=33,
    height_in=_height,
    collectors=("threads",),
    needs=lambda results: results.threads,
    title=lambda _: "The workload's threads: mean number by what they do; asleep by own will left out",
    draw=_draw,
    legend=_legend,
)
