# SPDX-License-Identifier: BSD-2-Clause
"""Pages of data that were read from the device though an earlier request of the run had read or written them.

They had been in memory, and left it since. What was written past the page cache never was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.critical_path.stretches import Mask
from analysis.tables.block import Block, parts
from analysis.tables.store import I64

PAGE_SECTORS = 8
PAGE_BYTES = PAGE_SECTORS * 512
MOST_PAGES = 1 << 22  # of more, what is read again is not counted: it would take seconds


@dataclass(frozen=True)
class AgainPages:
    """Reads of data. row: of the table block, ascending."""

    row: I64
    pages: I64
    again: I64  # of pages

    @property
    def bytes(self) -> int:
        """Of all reads."""
        return int(self.pages.sum()) * PAGE_BYTES

    @property
    def again_bytes(self) -> int:
        """Of what was read again."""
        return int(self.again.sum()) * PAGE_BYTES

    @property
    def share(self) -> float:
        """Of the bytes read."""
        return self.again_bytes / self.bytes if self.bytes else 0.0


def pages_read_again(block: Block | None, past_cache: Mask | None = None) -> AgainPages | None:
    """By page of each device. past_cache: requests that did not go through the page cache.

    None: no requests were recorded, or too many pages.
    """
    if block is None:
        return None
    rows_of: list[I64] = []
    pages_of: list[I64] = []
    total = 0
    all_reads = block.op.is_("read")
    is_wanted = block.class_.is_("data") & (all_reads | block.op.is_("write"))
    if past_cache is not None:
        is_wanted &= ~past_cache
    for at in parts(block.rows):
        mine = np.flatnonzero(is_wanted[at])
        count = np.maximum(np.asarray(block.bytes[at][mine], dtype=np.int64) // PAGE_BYTES, 1)
        total += int(count.sum())
        if total > MOST_PAGES:
            return None
        of = np.repeat(np.arange(mine.size), count)
        number = np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)
        first = block.sector[at][mine] // PAGE_SECTORS
        pages_of.append((np.asarray(block.dev[at][mine], dtype=np.int64)[of] << 40) + first[of] + number)
        rows_of.append((np.arange(block.rows)[at][mine])[of])
    none = np.zeros(0, dtype=np.int64)
    page, row = np.concatenate([none, *pages_of]), np.concatenate([none, *rows_of])
    order = np.lexsort((block.queue_ns[row], page)) if row.size else none
    page, row = page[order], row[order]
    before = np.zeros(page.size, dtype=np.int64)
    before[1:] = page[1:] == page[:-1]
    is_read = all_reads[row]
    rows, of_row = np.unique(row[is_read], return_inverse=True)
    again = np.bincount(of_row, before[is_read], rows.size).astype(np.int64)
    return AgainPages(rows, np.bincount(of_row, minlength=rows.size), again)
