# SPDX-License-Identifier: BSD-2-Clause
"""Bytes per second by service, container, pod or virtual machine: those with most bytes, and all others."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.figures import style
from analysis.figures.axes import Handle, Look, legend_in, stack
from analysis.figures.panel import Graph, Panel
from analysis.measures.units.by_unit import UNNAMED_KINDS, UnitResults
from analysis.rundir.run import clean

LEAST_IN = 0.95
TOP = 6
LETTERS = 30
OTHERS = "others"
# kernel threads, Seekmeter and what no cgroup names: no unit, so they have no unit's colour
REMAINDERS = {
    "kernel": (style.UNKNOWN, None),
    "unknown": (style.UNKNOWN, "////"),
    "seekmeter": (style.SEEKS, None),
}


def _looks(units: UnitResults) -> tuple[dict[str, Look], dict[str, np.ndarray]]:
    """How each area is drawn, and its MB/s; the units first, from the one with most bytes."""
    looks: dict[str, Look] = {}
    shown: dict[str, np.ndarray] = {}
    others = []
    for row in units.rows:
        values = units.mb_s.get((row.kind, row.name))
        if values is None:
            continue
        key = f"{row.kind}:{row.name}"
        if row.kind in REMAINDERS:
            looks[key] = Look(row.name, *REMAINDERS[row.kind])
        elif len([one for one in looks if one.partition(":")[0] not in UNNAMED_KINDS]) < TOP:
            name = clean(row.name, LETTERS)
            looks[key] = Look(name, style.LOCKS[len(looks) % len(style.LOCKS)], None)
        else:
            others.append(values)
            continue
        shown[key] = values
    if others:
        looks[OTHERS] = Look(f"{len(others)} others", style.OTHER_LOCKS, None)
        shown[OTHERS] = np.sum(others, axis=0)
    return looks, shown


def _height(graph: Graph) -> float:
    units = graph.results.units
    return max(LEAST_IN, legend_in(len(_looks(units)[0]))) if units is not None and units.mb_s else 0.0


def _draw(ax: Axes, graph: Graph) -> list[Handle]:
    units = graph.results.units
    if units is None:
        return []
    looks, shown = _looks(units)
    return stack(ax, graph.results.timeline.edges_s, shown, looks)


PANEL = Panel(
    key="unit_throughput",
    order=31,
    height_in=_height,
    collectors=("block",),
    needs=lambda results: results.block,
    title=lambda graph: f"Read and written by service and container, MB/s{graph.all_disks}",
    draw=_draw,
    per_second=True,
)
