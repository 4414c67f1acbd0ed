# SPDX-License-Identifier: BSD-2-Clause
"""Series by lock, stacked: what the panels of sleeping and of spinning on locks draw."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures import style
from analysis.figures.axes import Handle, from_zero
from analysis.figures.panel import Graph
from analysis.measures.common.timeline import F64
from analysis.measures.locks.lock_waits import OTHERS, LockWaits

LockKey = tuple[str, str]  # type and name
LABEL_LETTERS = 33


def _colors(waits: LockWaits) -> dict[LockKey, str]:
    """One colour for one lock in both panels, and in the graphs of other runs."""
    drawn = waits.sleep_series.keys() | waits.spin_series.keys()
    return style.lock_colors(drawn - {OTHERS}) | {OTHERS: style.OTHER_LOCKS}


def _label(key: LockKey) -> str:
    label = " ".join(part for part in key if part)
    return label if len(label) <= LABEL_LETTERS else label[: LABEL_LETTERS - 2] + ".."


def draw_stacked(
    ax: Axes, graph: Graph, waits: LockWaits, series: dict[LockKey, F64], factor: float
) -> list[Handle]:
    """The series times `factor`, on top of each other in their order; returns the legend's entries."""
    colors = _colors(waits)
    edges = graph.results.timeline.edges_s
    base = np.zeros(graph.results.timeline.bins)
    handles: list[Handle] = []
    for key, values in series.items():
        top = base + values * factor
        ax.stairs(top, edges, baseline=base, fill=True, color=colors[key], lw=0)
        # a white edge: in greyscale, neighbours may be equally dark
        ax.stairs(base, edges, baseline=None, color="white", lw=0.4)
        handles.append(Patch(color=colors[key], label=_label(key)))
        base = top
    from_zero(ax, float(base.max(initial=0.0)), 3)
    return handles


def legend(ax: Axes, _: Graph, handles: list[Handle]) -> None:
    """The legend, in small letters, as the names of locks are long."""
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.06), fontsize=7, handlelength=1.0)
