# SPDX-License-Identifier: BSD-2-Clause
"""Requests that woke somebody: rows of the table block by device, first sector and time of completion."""

from __future__ import annotations

import numpy as np

from analysis.measures.critical_path.intervals import I32, NONE
from analysis.tables.block import Block
from analysis.tables.store import I64
from analysis.tables.wake import Wake

REQUEST = "request"  # a cause of the table wake
# A wake-up follows the completion that is its cause within the same interrupt; the hypervisor may stop both.
LATEST_NS = 10_000_000


def requests_of(wake: Wake, block: Block | None) -> I32:
    """Row of the table block for each wake-up by a completion; NONE: another cause, or no such request."""
    found = np.full(wake.t_ns.size, NONE, dtype=np.int32)
    by = np.flatnonzero(wake.cause.is_(REQUEST))
    if block is None or not by.size:
        return found
    wanted = np.unique(wake.sector[by])
    at = np.minimum(np.searchsorted(wanted, block.sector), wanted.size - 1)
    rows = np.flatnonzero((wanted[at] == block.sector) & block.timed)
    # requests and wake-ups in one order: by device, sector, time; at the same time the request is first
    dev = np.concatenate((block.dev[rows], wake.dev[by])).astype(np.int64)
    sector = np.concatenate((block.sector[rows], wake.sector[by]))
    t = np.concatenate((block.complete_ns[rows], wake.t_ns[by]))
    order = np.lexsort((t, sector, dev))
    is_request = order < rows.size
    last = np.maximum.accumulate(np.where(is_request, np.arange(order.size), -1))
    wakes = np.flatnonzero(~is_request & (last >= 0))
    request, query = order[last[wakes]], order[wakes]
    same = (dev[request] == dev[query]) & (sector[request] == sector[query])
    same &= t[query] - t[request] <= LATEST_NS
    found[by[query[same] - rows.size]] = rows[request[same]]
    return found


def threads_by_tid(tid: I64, start_ns: I64, number: I64, wanted_tid: I64, at_ns: I64) -> I64:
    """Number of the thread that had a thread id at a time: the last one that began before; 0: none."""
    thread_id = np.concatenate((tid, wanted_tid))
    t = np.concatenate((start_ns, at_ns))
    order = np.lexsort((t, thread_id))
    is_thread = order < tid.size
    last = np.maximum.accumulate(np.where(is_thread, np.arange(order.size), -1))
    queries = np.flatnonzero(~is_thread & (last >= 0))
    thread, query = order[last[queries]], order[queries]
    same = thread_id[thread] == thread_id[query]
    found = np.zeros(wanted_tid.size, dtype=np.int64)
    found[query[same] - tid.size] = number[thread[same]]
    return found
