# SPDX-License-Identifier: BSD-2-Clause
"""What the workload's threads do: on a CPU, ready for one, or asleep for which group of causes."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import style
from analysis.figures.axes import Handle, Look, legend_in, stack
from analysis.figures.panel import Graph, Panel
from analysis.measures.threads.over_time import SERIES

LEAST_IN = 0.95
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
LOOKS = {key: Look(label, style.THREADS[key], style.THREADS_HATCH.get(key)) for key, label in LABELS.items()}


def _height(graph: Graph) -> float:
    threads = graph.results.threads
    return max(LEAST_IN, legend_in(len(threads.over_time))) if threads and threads.over_time else 0.0


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    threads = graph.results.threads
    if threads is None:
        return []
    shown = {key: threads.over_time[key] for key in SERIES if key in threads.over_time}
    return stack(ax, graph.results.timeline.edges_s, shown, LOOKS)


PANEL = Panel(
    key="thread_states",
    order=33,
    height_in=_height,
    collectors=("threads",),
    needs=lambda results: results.threads,
    title=lambda _: "The workload's threads: mean number by what they do; asleep by own will left out",
    draw=_draw,
)
