# SPDX-License-Identifier: BSD-2-Clause
"""Requests whose end a worker passed on to the workload: the end of writeback or of a read, in a work item.

File systems end some requests in a work item of their own (ext4 and XFS after a write to a new extent, Btrfs
always), and that wakes whoever waits for the page. The recorder sees both wakes: by the request's end the
worker, and by the worker, in a function that ends I/O, a thread of the workload. A worker that is busy as a
request ends is not woken by it: then it is the last request of the woken thread itself that ended since that
thread was woken before. What neither tells is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np

from analysis.measures.critical_path.requests import requests_of
from analysis.tables.block import Block
from analysis.tables.store import I64
from analysis.tables.thread import Threads
from analysis.tables.wake import Wake

# Functions of work items that end I/O.
ENDS = (
    "*end_io*",
    "*endio*",
    "*ioend*",
    "*dio*complete*",
    "bio_complete*",
    "kcryptd_crypt*",
)
# The longest table of wake-ups that is looked at.
ROWS_MOST = 24_000_000


def passed_on(wake: Wake, block: Block, functions: Mapping[int, str], threads: Threads) -> I64:
    """Rows of the block table. functions: names by number."""
    none = np.zeros(0, dtype=np.int64)
    ends = [number for number, name in functions.items() if any(fnmatchcase(name, end) for end in ENDS)]
    is_workload = np.array([role == "workload" for role in threads.role], dtype=np.bool_)
    workload = threads.thread[is_workload]
    by = wake.cause.is_("work") & np.isin(wake.work_id, ends) & np.isin(wake.wakee, workload)
    rows = np.flatnonzero(by)
    rows = rows[np.argsort(wake.t_ns[rows], kind="stable")]
    if not rows.size or wake.t_ns.size > ROWS_MOST:
        return none
    first = int(wake.t_ns.min())
    span = int(wake.t_ns.max()) - first + 2
    key = wake.wakee.astype(np.int64) * span + (wake.t_ns - first)
    order = np.argsort(key, kind="stable")

    def before(thread: I64, t_ns: I64) -> I64:
        """The last wake-up of each thread before a time; -1: none."""
        at = np.searchsorted(key[order], thread * span + (t_ns - first)) - 1
        found = order[np.maximum(at, 0)]
        return np.where((at >= 0) & (wake.wakee[found] == thread), found, -1)

    t_ns, wakee = wake.t_ns[rows], wake.wakee[rows].astype(np.int64)
    woken = before(wake.waker[rows].astype(np.int64), t_ns)
    of_worker = np.where(woken >= 0, requests_of(wake, block)[np.maximum(woken, 0)], -1)
    previous = before(wakee, t_ns)
    since = np.where(previous >= 0, wake.t_ns[np.maximum(previous, 0)], 0)
    own = _last_of(block, _tids(threads, wakee), t_ns)
    if block.rows:
        own = np.where(block.complete_ns[np.maximum(own, 0)] > since, own, -1)
    # a worker that was woken once for several requests has the first one's wake-up
    _, first_of = np.unique(woken, return_index=True)
    is_first = np.zeros(rows.size, dtype=np.bool_)
    is_first[first_of] = True
    is_of_worker = (of_worker >= 0) & (is_first | (own < 0))
    found = np.where(is_of_worker, of_worker, own)
    return np.unique(found[found >= 0]).astype(np.int64)


def _tids(threads: Threads, number: I64) -> I64:
    """Thread ids of thread numbers, which are in the table."""
    order = np.argsort(threads.thread, kind="stable")
    at = np.searchsorted(threads.thread[order], number)
    return np.asarray(threads.tid[order[np.minimum(at, order.size - 1)]])


def _last_of(block: Block, tid: I64, t_ns: I64) -> I64:
    """The last request of each thread that had ended at a time; -1: none."""
    pid = block.read("pid")
    if pid is None or not block.rows:
        return np.full(tid.size, -1, dtype=np.int64)
    mine = np.flatnonzero(np.isin(pid, tid) & block.timed & block.moves_data)
    order = mine[np.lexsort((block.complete_ns[mine], pid[mine]))]
    if not order.size:
        return np.full(tid.size, -1, dtype=np.int64)
    first, span = int(block.complete_ns[order].min()), int(block.complete_ns[order].max()) + 2
    key = pid[order].astype(np.int64) * span + (block.complete_ns[order] - first)
    at = np.searchsorted(key, tid * span + np.clip(t_ns - first, -1, span - 1), side="right") - 1
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (pid[found] == tid), found, -1)
