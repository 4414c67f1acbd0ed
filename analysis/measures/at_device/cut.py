# SPDX-License-Identifier: BSD-2-Clause
"""Requests that the queue's limit of a request's size (max_sectors_kb) cut out of larger ones.

The kernel cuts a bio as it is queued: all its parts have that time, and lie side by side.
"""

from __future__ import annotations

import numpy as np

from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.store import I64

MOST_BYTES = 128 << 10  # parts of this size and more cost a disk little
MOST_ROWS = 1 << 22  # of more, none is looked for: it would take seconds


def parts_of_one(block: Block) -> I64:
    """Of each request, in how many small ones the bio was cut that it is of; 1: it was not, or not known."""
    found = np.ones(block.rows, dtype=np.int64)
    small = np.flatnonzero((block.bytes[:] < MOST_BYTES) & block.op.is_in(("read", "write")))
    if not 2 <= small.size <= MOST_ROWS:
        return found
    order = small[np.lexsort((block.sector[small], block.queue_ns[small], block.dev[small]))]
    end = block.sector[order] + np.asarray(block.bytes[order], dtype=np.int64) // SECTOR_BYTES
    begins = np.ones(order.size, dtype=np.bool_)
    for column in (block.queue_ns, block.dev):
        begins[1:] &= column[order[1:]] == column[order[:-1]]
    begins[1:] = ~(begins[1:] & (block.sector[order[1:]] == end[:-1]))
    chain = np.cumsum(begins) - 1
    found[order] = np.bincount(chain)[chain]
    return found
