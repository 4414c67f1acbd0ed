# SPDX-License-Identifier: BSD-2-Clause
"""Page cache of the whole machine that is not on disk yet: dirty pages, and pages under writeback."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures import style
from analysis.figures.axes import Handle, any_finite, from_zero, legend_line
from analysis.figures.panel import Graph, Panel


def _empty(graph: Graph) -> str:
    memory = graph.results.memory
    has_samples = memory is not None and any_finite(memory.dirty)
    return "" if has_samples else "no sample of dirty pages"


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    memory, edges = graph.results.memory, graph.results.timeline.edges_s
    if memory is None:
        return []
    handles: list[Handle] = [Patch(color=style.DIRTY, alpha=0.45, label="dirty")]
    ax.stairs(memory.dirty / 1e6, edges, fill=True, color=style.DIRTY, alpha=0.45, lw=0)
    top = float(np.nanmax(memory.dirty)) / 1e6
    if any_finite(memory.writeback):
        ax.stairs(memory.writeback / 1e6, edges, baseline=None, color=style.WRITEBACK, lw=1.2)
        handles.append(legend_line(style.WRITEBACK, "in writeback"))
        top = max(top, float(np.nanmax(memory.writeback)) / 1e6)
    from_zero(ax, top, 3)
    return handles


PANEL = Panel(
    key="dirty_memory",
    order=90,
    height_in=0.65,
    collectors=("counters",),
    needs=lambda results: results.memory,
    title=lambda _: "Dirty pages and writeback, whole machine, MB",
    draw=_draw,
    empty=_empty,
)
