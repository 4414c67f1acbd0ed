# SPDX-License-Identifier: BSD-2-Clause
"""What the workload's progress waits for in the end, over time: the pieces of the critical path by group."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures import style
from analysis.figures.axes import Handle, from_zero
from analysis.figures.panel import Graph, Panel
from analysis.measures.critical_path.ends import GROUPS
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.results import Results

HEIGHT_IN = 0.75
LABELS = {
    "own CPU": "on a CPU",
    "others' CPU": "another of its threads",
    "fs CPU": "the file system's",
    "ready": "ready for a CPU",
    "device": "the device",
    "queue": "before the device",
    "pause": "a pause",
    "apparatus": "apparatus",
    "unknown": "unknown",
    "not recorded": "not recorded",
}


def _path(results: Results) -> PathResults | None:
    return None if isinstance(results.path, NoPath) else results.path


def _height(graph: Graph) -> float:
    return HEIGHT_IN if _path(graph.results) is not None else 0.0


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    path, edges = _path(graph.results), graph.results.timeline.edges_s
    if path is None:
        return []
    base = np.zeros(graph.results.timeline.bins)
    handles: list[Handle] = []
    for group in (group for group in GROUPS if group in path.over_time):
        top = base + path.over_time[group]
        color, hatch = style.PATH[group], style.PATH_HATCH.get(group)
        ink = style.QUIET if hatch else color
        ax.stairs(top, edges, baseline=base, fill=True, fc=color, ec=ink, hatch=hatch, lw=0)
        # a white edge: in greyscale, neighbours may be equally dark
        ax.stairs(base, edges, baseline=None, color="white", lw=0.4)
        handles.append(Patch(label=LABELS[group], fc=color, ec=ink, hatch=hatch, lw=0))
        base = top
    from_zero(ax, float(base.max(initial=0.0)), 3)
    return handles[::-1]


def _legend(ax: Axes, _: Graph, handles: list[Handle]) -> None:
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.06), fontsize=7, handlelength=1.2)


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
    legend=_legend,
)
