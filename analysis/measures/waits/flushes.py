# SPDX-License-Identifier: BSD-2-Clause
"""Flushes of the disk's cache: how many and how long, from issue to completion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.block import Block, parts

PREFLUSH = 8  # bit of the column flags: a write that the disk's cache is flushed before


@dataclass(frozen=True)
class Flushes:
    """Requests of op flush. total_ns: summed; requests may overlap."""

    count: int
    total_ns: int

    @property
    def mean_ns(self) -> float:
        """Mean time at the device."""
        return self.total_ns / self.count if self.count else 0.0


def flushes_in(block: Block | None, window: tuple[int, int]) -> Flushes | None:
    """Flushes issued within the window, with times in order. None: no requests were recorded."""
    if block is None:
        return None
    count = total = 0
    is_flush = block.op.is_("flush")
    for at in parts(block.rows):
        mine = is_flush[at] & block.timed[at]
        mine &= (block.issue_ns[at] >= window[0]) & (block.issue_ns[at] < window[1])
        count += int(np.count_nonzero(mine))
        total += int((block.complete_ns[at][mine] - block.issue_ns[at][mine]).sum())
    return Flushes(count, total)
