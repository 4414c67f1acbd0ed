# SPDX-License-Identifier: BSD-2-Clause
"""Memory reclaim in the workload's own threads, and reads of what it had read or written before.

Reclaim: the events direct_reclaim on the path, asleep or on a CPU. Read again: bytes of data read from the
device whose pages an earlier request of the run had read or written; they had left memory since.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.waits.on_path import path_ns
from analysis.tables import event, thread
from analysis.tables.block import Block, parts
from analysis.tables.load import Tables
from analysis.tables.store import I64

KIND = "direct_reclaim"
PAGE_SECTORS = 8
MOST_PAGES = 1 << 22  # of more, what is read again is not counted: it would take seconds


@dataclass(frozen=True)
class Reclaim:
    """Direct reclaim of the ledger's threads. ns: of their time."""

    count: int
    ns: int
    pages: int
    by_memcg: bool  # a cgroup's limit was the reason, not the machine's


def reclaim_of(tables: Tables, path: PathResults | NoPath, window: tuple[int, int]) -> Reclaim | None:
    """Sum the events. None: no events were recorded."""
    table = tables.get(event.TABLE)
    if table is None:
        return None
    mine = table.kind.is_(KIND) & np.isin(table.tid, sorted(_tids(tables))) & ~table.is_open
    begin, end = np.clip(table.start_ns, *window), np.clip(table.end_ns, *window)
    rows = np.flatnonzero(mine & (end > begin))
    if isinstance(path, PathResults) and path.rows is not None:
        ns = path_ns(path.rows, table.tid[rows], begin[rows], end[rows])
    else:
        ns = (end - begin)[rows]
    rows, ns = rows[ns > 0], ns[ns > 0]
    return Reclaim(
        int(rows.size),
        int(ns.sum()),
        int(table.pages[rows].sum()),
        bool(table.why.is_("memcg")[rows].sum() * 2 > rows.size),
    )


def _tids(tables: Tables) -> set[int]:
    """Thread ids of the workload."""
    threads = tables.get(thread.TABLE)
    if threads is None:
        return set()
    rows = zip(threads.tid.tolist(), threads.role, strict=True)
    return {tid for tid, role in rows if role == WORKLOAD and tid}


@dataclass(frozen=True)
class ReadAgain:
    """Data read from the device, and of it what an earlier request of the run had read or written."""

    bytes: int
    again_bytes: int

    @property
    def share(self) -> float:
        """Of the bytes read."""
        return self.again_bytes / self.bytes if self.bytes else 0.0


def read_again(block: Block | None) -> ReadAgain | None:
    """By page of each device. None: no requests were recorded, or too many pages."""
    if block is None:
        return None
    pages: list[I64] = []
    times: list[I64] = []
    reads: list[np.ndarray] = []
    total = 0
    all_reads = block.op.is_("read")
    is_wanted = block.class_.is_("data") & (all_reads | block.op.is_("write"))
    for at in parts(block.rows):
        is_read = all_reads[at]
        rows = np.flatnonzero(is_wanted[at])
        count = np.maximum(np.asarray(block.bytes[at][rows], dtype=np.int64) // (PAGE_SECTORS * 512), 1)
        total += int(count.sum())
        if total > MOST_PAGES:
            return None
        of = np.repeat(np.arange(rows.size), count)
        number = np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)
        first = block.sector[at][rows] // PAGE_SECTORS
        pages.append((np.asarray(block.dev[at][rows], dtype=np.int64)[of] << 40) + first[of] + number)
        times.append(block.queue_ns[at][rows][of])
        reads.append(is_read[rows][of])
    if not total:
        return ReadAgain(0, 0)
    page, t_ns, is_read = np.concatenate(pages), np.concatenate(times), np.concatenate(reads)
    order = np.lexsort((t_ns, page))
    page, is_read = page[order], is_read[order]
    before = np.concatenate(([False], page[1:] == page[:-1]))
    size = PAGE_SECTORS * 512
    return ReadAgain(int(is_read.sum()) * size, int((is_read & before).sum()) * size)
