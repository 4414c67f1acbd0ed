# SPDX-License-Identifier: BSD-2-Clause
"""Panels of emulated disks: a row a disk, one above the other, on an axis of disk names."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.figures.panel import Graph
from analysis.measures.disk.results import DiskResults

MOST = 4  # disks; the section has all of them
HIGH = 0.9  # of a row's height: the rest parts it from the next
NAME_LETTERS = 12


def shown_disks(graph: Graph) -> Sequence[DiskResults]:
    """The disks that a panel has room for, the first on top."""
    disks = graph.results.disks
    return disks.disks[:MOST] if disks is not None else []


def height_in(graph: Graph, one_in: float) -> float:
    """Height of a panel: one_in for a disk, less for each of several. 0: the run has no emulated disk."""
    count = len(shown_disks(graph))
    return 0.0 if not count else one_in if count == 1 else max(0.55 * count, one_in)


def base_of(number: int, count: int) -> float:
    """The lower end of a disk's row."""
    return float(count - 1 - number)


def name_rows(ax: Axes, disks: Sequence[DiskResults]) -> None:
    """Name each of several disks at its row."""
    count = len(disks)
    ax.set_ylim(0, count - 1 + HIGH if count > 1 else HIGH)
    names = [disk.label.split(" (")[0] for disk in disks]
    ax.set_yticks(
        [base_of(i, count) + HIGH / 2 for i in range(count)],
        [name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 3] + "..." for name in names],
    )


def more_disks(graph: Graph) -> str:
    """For a title: how many disks are not shown."""
    disks = graph.results.disks
    more = len(disks.disks) - MOST if disks is not None else 0
    return f", {MOST} of {MOST + more} disks" if more > 0 else ""
