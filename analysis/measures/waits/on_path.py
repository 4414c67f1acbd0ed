# SPDX-License-Identifier: BSD-2-Clause
"""What part of the time of the workload's threads is on the path.

The path's root is often a thread that waits for its children; what they do is then the workload's progress.
"""

from __future__ import annotations

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import PathRows
from analysis.tables import thread_time
from analysis.tables.load import Tables
from analysis.tables.store import I64
from analysis.tables.thread_rows import RUNNING, SPLIT

ON_CPU = (*SPLIT, RUNNING)


def path_ns(rows: PathRows, tid: I64, begin_ns: I64, end_ns: I64) -> I64:
    """Time of the path that is a thread's own, by thread id, within each span; of several roots the sum."""
    found = np.zeros(tid.size, dtype=np.int64)
    wanted = np.unique(tid)
    for pieces in rows.pieces:
        known = np.flatnonzero(pieces.own >= 0)
        thread = rows.intervals.thread[pieces.own[known]]
        owner = rows.owners.tid[thread]
        for one in np.intersect1d(wanted, owner).tolist():
            mine = known[owner == one]
            spans = np.flatnonzero(tid == one)
            for root in np.unique(pieces.root[mine]).tolist():
                at = mine[pieces.root[mine] == root]
                found[spans] += covered(pieces.begin[at], pieces.end[at], begin_ns[spans], end_ns[spans])
    return found


def covered(begin: I64, end: I64, from_ns: I64, until_ns: I64) -> I64:
    """How much of each span the pieces cover, which do not overlap and ascend."""
    zero = int(begin[0])
    total = np.cumsum(end - begin)
    x = np.stack([begin - zero, end - zero], axis=1).reshape(-1).astype(np.float64)
    y = np.stack([total - (end - begin), total], axis=1).reshape(-1).astype(np.float64)
    first, last = (np.interp((t - zero).astype(np.float64), x, y) for t in (from_ns, until_ns))
    return np.rint(last - first).astype(np.int64)


def cpu_share(rows: PathRows, tables: Tables, state: str) -> float | None:
    """Share of the workload's time in a state on a CPU that is on the path: each thread's by its CPU time.

    None: the table thread_time has no such time.
    """
    times = tables.get(thread_time.TABLE)
    if times is None:
        return None
    mine = times.role.is_(WORKLOAD) & times.state.is_in(ON_CPU)
    threads = np.unique(times.thread[mine])  # a foreign run may have numbers of any size
    in_state = mine & times.state.is_(state)
    on_cpu, wanted = (
        np.bincount(np.searchsorted(threads, times.thread[rows_of]), times.ns[rows_of], threads.size)
        for rows_of in (mine, in_state)
    )
    if not wanted.any():
        return None
    on_path = np.zeros(threads.size)
    for pieces in rows.pieces:
        at = np.flatnonzero((pieces.kind == Kind.CPU) & (pieces.interval == pieces.own) & (pieces.own >= 0))
        number = rows.intervals.numbers[rows.intervals.thread[pieces.own[at]]]
        known = np.isin(number, threads)
        on_path += np.bincount(np.searchsorted(threads, number[known]), pieces.ns[at][known], threads.size)
    share = np.minimum(on_path / np.maximum(on_cpu, 1), 1.0)
    return float((wanted * share).sum() / wanted.sum())
