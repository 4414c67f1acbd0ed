# SPDX-License-Identifier: BSD-2-Clause
"""What the workload's progress waits for in the end, over time: the pieces of the critical path by group."""

from __future__ import annotations

from matplotlib.axes import Axes

from analysis.figures import style
from analysis.figures.axes import Handle, Look, legend_in, stack
from analysis.figures.panel import Graph, Panel
from analysis.measures.critical_path.ends import GROUPS
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.results import Results

LEAST_IN = 0.95
LABELS = {
    "own CPU": "on a CPU: itself",
    "others' CPU": "on a CPU: its others",
    "fs CPU": "on a CPU: file system",
    "ready": "ready for a CPU",
    "device": "at the device",
    "queue": "before the device",
    "pause": "a pause",
    "apparatus": "apparatus",
    "unknown": "unknown",
    "not recorded": "not recorded",
}
LOOKS = {key: Look(label, style.PATH[key], style.PATH_HATCH.get(key)) for key, label in LABELS.items()}


def _path(results: Results) -> PathResults | None:
    return None if isinstance(results.path, NoPath) else results.path


def _height(graph: Graph) -> float:
    path = _path(graph.results)
    return max(LEAST_IN, legend_in(len(path.over_time))) if path is not None else 0.0


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    path = _path(graph.results)
    if path is None:
        return []
    shown = {group: path.over_time[group] for group in GROUPS if group in path.over_time}
    return stack(ax, graph.results.timeline.edges_s, shown, LOOKS)


def _title(graph: Graph) -> str:
    path = _path(graph.results)
    if path is None or path.is_one:
        return "The critical path: what the workload's progress waits for in the end"
    return f"The critical path of {path.roots:,} threads: mean number by what they wait for in the end"


PANEL = Panel(
    key="critical_path",
    order=34,
    height_in=_height,
    collectors=("sched",),
    needs=_path,
    title=_title,
    draw=_draw,
)
