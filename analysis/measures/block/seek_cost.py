# SPDX-License-Identifier: BSD-2-Clause
"""Seeks in queue order against issue order: what the I/O scheduler and the drivers saved or cost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.measures.block.seeks import NEAR_SECTORS, iter_distances
from analysis.tables.block import Block
from analysis.tables.store import Ints


@dataclass(frozen=True)
class OrderRow:
    """One device's requests, as issued and as queued."""

    dev: int
    requests: int
    issued: int  # seeks in this order
    queued: int

    @property
    def saved_seeks(self) -> int:
        """Seeks that issuing in another order than queued avoided; negative: it made more."""
        return self.queued - self.issued


def count_seeks(block: Block, rows: Ints, first: int, last: int) -> int:
    """Seeks of rows[first:last], all of one device; the first request is none."""
    seeks = 0
    for part, distance in iter_distances(block, rows, first, last):
        if part.start == first:
            distance[0] = 0
        seeks += int((np.abs(distance) > NEAR_SECTORS).sum())
    return seeks


def by_order(block: Block, issued: Ints, queued: Ints) -> list[OrderRow]:
    """One row per device. issued, queued: rows sorted by device."""
    dev = block.dev[issued]
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(dev[1:] != dev[:-1])), int(dev.size)] if dev.size else []
    return [
        OrderRow(
            int(dev[first]),
            last - first,
            *(count_seeks(block, rows, first, last) for rows in (issued, queued)),
        )
        for first, last in pairwise(edges)
    ]
