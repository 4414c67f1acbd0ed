# SPDX-License-Identifier: BSD-2-Clause
"""What is below a loop device's request: a worker of the loop device, and the disk that has its file.

    issue ... a worker runs, or waits for a CPU ... the disk below has its part ... handed back ... completion

The recorder tells when the disk below had its part, where the loop device does direct I/O. The worker is the
one that ran as that was sent: of all that ever worked for a loop device, the last that came to a CPU. Where
the recorder does not tell (flushes, discards, without direct I/O), the worker is the last one that came to a
CPU before the request completed, a weak link; the time after its run is the device's as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.stretches import I32, NONE, Mask
from analysis.rundir.device_number import MINOR_BITS
from analysis.tables.store import I64

LOOP_MAJOR = 7
US = 1000


@dataclass(frozen=True)
class Below:
    """By request. Without a worker its time is of no length, and so is the disk's where that is not known."""

    is_told: Mask  # when the disk below had it
    worker: I32  # index of the thread; NONE: not known
    is_weak: Mask  # the worker may be another
    worker_until_ns: I64  # from the issue on
    begin_ns: I64  # the disk below has it
    end_ns: I64


def find_below(
    dev: I64,
    issue_ns: I64,
    complete_ns: I64,
    begin_us: I64,
    end_us: I64,
    intervals: Intervals,
    is_worker: Mask,
) -> Below:
    """begin_us, end_us: of the disk below, since the issue; an end of 0: not told. is_worker: threads."""
    is_told = end_us > 0
    begin = np.where(is_told, np.minimum(issue_ns + begin_us * US, complete_ns), issue_ns)
    end = np.where(is_told, np.minimum(issue_ns + end_us * US, complete_ns), issue_ns)
    end = np.maximum(begin, end)
    rows = np.flatnonzero((intervals.state == State.RUNNING) & is_worker[intervals.thread])
    rows = rows[np.argsort(intervals.begin[rows], kind="stable")]
    worker = np.full(issue_ns.size, NONE, dtype=np.int32)
    until = issue_ns
    if rows.size:
        until_when = np.where(is_told, begin, complete_ns)
        at = np.searchsorted(intervals.begin[rows], until_when, side="right") - 1
        # of several that ran, the last that came; if it had left again, the one that stayed longest
        run_end = intervals.end[rows]
        latest = np.maximum.accumulate(run_end)
        longest = np.maximum.accumulate(np.where(run_end == latest, np.arange(rows.size), 0))
        last = np.maximum(at, 0)
        chosen = np.where(run_end[last] < until_when, longest[last], last)
        is_found = (at >= 0) & (run_end[chosen] > issue_ns)
        is_found &= is_told | (dev >> MINOR_BITS == LOOP_MAJOR)
        worker = np.where(is_found, intervals.thread[rows[chosen]], NONE).astype(np.int32)
        until = np.where(is_found, np.minimum(run_end[chosen], until_when), issue_ns)
    begin, end = np.where(is_told, begin, until), np.where(is_told, end, until)
    return Below(is_told, worker, (worker >= 0) & ~is_told, until, begin, end)
