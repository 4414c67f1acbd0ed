# SPDX-License-Identifier: BSD-2-Clause
"""Requests per second by operation, and seeks per second: where they meet, every request seeks."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures import style
from analysis.figures.axes import Handle, from_zero, legend_line
from analysis.figures.panel import Graph, Panel, no_disk_requests
from analysis.measures.block.throughput import OPS


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    results = graph.results
    if results.block is None:
        return []
    edges = results.timeline.edges_s
    seeks_per_s = results.block.seeks.per_s
    iops = results.below.iops if results.below is not None else results.block.throughput.iops
    ax.stairs(seeks_per_s, edges, fill=True, color=style.SEEKS, lw=0)
    handles: list[Handle] = [Patch(color=style.SEEKS, label="seeks")]
    top = float(seeks_per_s.max(initial=0.0))
    if results.owners is not None and results.owners.is_shared:
        ax.stairs(results.owners.own_seeks_per_s, edges, fill=True, color=style.OWN_SEEKS, lw=0)
        handles.append(Patch(color=style.OWN_SEEKS, label="seeks, workload's"))
    for op in (op for op in iops if op in OPS):
        ax.stairs(iops[op], edges, baseline=None, color=style.OP[op], lw=1.2, ls=style.OP_DASH[op])
        handles.append(legend_line(style.OP[op], op, 1.2, style.OP_DASH[op]))
        top = max(top, float(iops[op].max(initial=0.0)))
    other_ops = [op for op in iops if op not in OPS]
    other = np.sum([iops[op] for op in other_ops], axis=0) if other_ops else np.zeros(results.timeline.bins)
    if other.any():
        ax.stairs(other, edges, baseline=None, color=style.OTHER_OPS, lw=1.0, ls=style.DASHED)
        handles.append(legend_line(style.OTHER_OPS, ", ".join(other_ops), 1.0, style.DASHED))
        top = max(top, float(other.max()))
    from_zero(ax, top)
    return handles


PANEL = Panel(
    key="request_rates",
    order=40,
    height_in=0.95,
    collectors=("block",),
    needs=lambda results: results.block,
    title=lambda graph: f"Requests and seeks per second{graph.all_disks}",
    draw=_draw,
    empty=no_disk_requests,
    compared_height_in=1.0,
    per_second=True,
)
