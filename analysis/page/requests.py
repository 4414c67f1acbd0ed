# SPDX-License-Identifier: BSD-2-Clause
"""The requests that the page shows: of the disks, and what the file system asked its volumes for.

On bare disks both are the same. The page has the requests that were issued in its time; others are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analysis.measures.block.request_owners import Owners
from analysis.page.data import Asked
from analysis.page.request_bins import Grid, make_grid
from analysis.page.request_keys import Keys, make_keys
from analysis.tables.block import Block, parts
from analysis.tables.store import I64, Categorical, Ints

PART_ROWS = 1 << 18
MOST_KINDS = 64


@dataclass(frozen=True)
class Requests:
    """Rows of the table block, or bios to volumes. owner_codes: of each row; None: not known."""

    block: Block
    owners: Owners | None
    is_bios: bool
    zero_ns: int
    grid: Grid  # of one bin: the time that the page shows
    has_queue: bool  # queueing was recorded: else there is no Q2D, and no Q2C
    seek_rows: I64 | Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @cached_property
    def keys(self) -> Keys:
        """Operation, class, why and owner of each request."""
        block = self.block
        one = Categorical(np.broadcast_to(np.zeros(1, dtype=np.int8), (block.rows,)), ("unknown",))
        why = block.read_categorical("why") or one
        has_owner = self.owners is not None and self.owners.codes is not None
        whose = self.owners.column() if self.owners is not None and has_owner else one
        return make_keys(("op", "class", "why", "whose"), (block.op, block.class_, why, whose))

    @cached_property
    def kinds(self) -> Keys:
        """Operation and class of each request."""
        return make_keys(("op", "class"), (self.block.op, self.block.class_), MOST_KINDS)

    @cached_property
    def is_seek(self) -> npt.NDArray[np.bool_]:
        """Mask of the requests that need a seek."""
        mask = np.zeros(self.block.rows, dtype=np.bool_)
        mask[self.seek_rows] = True
        return mask

    @cached_property
    def outside(self) -> int:
        """Requests that were issued before or after the time that the page shows."""
        return sum(int((~self.is_shown(at)).sum()) for at in parts(self.block.rows, PART_ROWS))

    def is_shown(self, at: slice) -> npt.NDArray[np.bool_]:
        """Mask of the requests among these rows that were issued in the page's time."""
        return np.asarray(self.grid.bin(self.block.issue_ns[at] - self.zero_ns) >= 0)

    def q2d_ns(self, at: slice) -> I64:
        """Queue to issue of these rows; 0 where the times are not in order."""
        block = self.block
        return np.where(block.timed[at], block.issue_ns[at] - block.queue_ns[at], 0)

    def d2c_ns(self, at: slice) -> I64:
        """Issue to completion of these rows; 0 where the times are not in order."""
        block = self.block
        return np.where(block.timed[at], block.complete_ns[at] - block.issue_ns[at], 0)

    def q2c_ns(self, at: slice) -> I64:
        """Queue to completion of these rows; 0 where the times are not in order."""
        block = self.block
        return np.where(block.timed[at], block.complete_ns[at] - block.queue_ns[at], 0)


def whole_time(asked: Asked) -> Grid:
    """The time that the page shows, as one bin."""
    return make_grid(asked.start_ns, asked.end_ns, 1)


def disks_of(asked: Asked) -> Requests | None:
    """The requests to the disks; None: none were recorded."""
    return asked.once("disks", lambda: _disks(asked))


def _disks(asked: Asked) -> Requests | None:
    results = asked.source.results.block
    block = asked.source.tables.block
    if block is None or results is None:
        return None
    distances = results.seeks.distances
    return Requests(
        block,
        results.disk_owners,
        is_bios=False,
        zero_ns=asked.zero_ns,
        grid=whole_time(asked),
        has_queue=block.queue_seen,
        seek_rows=distances.rows[distances.is_seek],
    )


def asked_of_volumes(asked: Asked) -> Requests | None:
    """What the file system asked for, where it is on volumes; None: it is on bare disks, or none recorded."""
    return asked.once("volumes", lambda: _volumes(asked))


def _volumes(asked: Asked) -> Requests | None:
    results, tables = asked.source.results.block, asked.source.tables
    top = tables.top
    if results is None or top is None or top is tables.block:
        return None
    return Requests(top, results.owners, True, asked.zero_ns, whole_time(asked), has_queue=True)
