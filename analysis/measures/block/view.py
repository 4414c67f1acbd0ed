# SPDX-License-Identifier: BSD-2-Clause
"""A view of a run's I/O: the disks' requests, or what the file system asked for (bios to its volumes).

The file system's view gives throughput, classes, owners, areas and Q2C; the disks' view gives seeks, depth,
D2C and order. On bare disks both views are the same object.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from analysis.measures.block.kinds import Kinds, kinds
from analysis.measures.block.seeks import Distances, measure_distances
from analysis.tables.block import Block, take_rows


@dataclass(frozen=True)
class View:
    """Rows, with the kind and the distance of each."""

    block: Block

    @cached_property
    def kinds(self) -> Kinds:
        """Operation and class of each row."""
        return kinds(self.block)

    @cached_property
    def distances(self) -> Distances:
        """Distance of each read and write from the end of the one before on its device."""
        return measure_distances(self.block)


@dataclass(frozen=True)
class Views:
    """Both views. disks: the requests of the leaves, none of a volume without disks (zram)."""

    disks: View
    top: View

    @property
    def is_stacked(self) -> bool:
        """Whether the file system uses a volume: its view is then not the disks'."""
        return self.top is not self.disks

    @property
    def has_disks(self) -> bool:
        """Whether there are disks' requests: a volume without disks (zram) has no seeks, not 0."""
        return not self.is_stacked or self.disks.block.rows > 0


def make_views(disks: Block | None, top: Block | None) -> Views | None:
    """The views of the tables block and Tables.top; None without requests and bios recorded."""
    if top is None:
        return None
    if disks is top:
        view = View(top)
        return Views(view, view)
    return Views(View(take_rows(top, slice(0, 0)) if disks is None else disks), View(top))
