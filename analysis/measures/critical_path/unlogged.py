# SPDX-License-Identifier: BSD-2-Clause
"""Whose threads had a CPU of those that are not logged: the recorder's, other programs', or nobody's (idle).

A switch between two threads that are not logged has no row, so a span in which such a thread came to the CPU
may be several of them. The table thread_time adds up at every switch who ran while a thread was ready: of
the same thread, in the time bins that the span lies in, it has the part of each role. The order in which they
ran is not known; their parts are laid one after the other.

Measured (6.18, eight hogs on two CPUs beside ext4 and XFS): if the last one is taken to have run all the
time, the path gives the recorder 0.22 and 0.37 s, of which other programs had all but 0.03 and 0.04.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.causes.roles import OTHER, RECORDER
from analysis.measures.critical_path.owners import IDLE
from analysis.tables.store import I64
from analysis.tables.thread_rows import RUNNABLE
from analysis.tables.thread_time import ThreadTime

F64 = npt.NDArray[np.float64]
ROLES = (IDLE, OTHER, RECORDER)  # RCU's threads are not logged either, but run for microseconds
LEAST_PART = 0.005  # of a span: less is given to who had the most


@dataclass(frozen=True)
class Unlogged:
    """Waits for a CPU while a thread of ROLES had it, as sums over rows that ascend by thread and time.

    Rows of one thread, and of one role, do not overlap: those within a span are those that begin before its
    end less those that end before its begin.
    """

    first_ns: int
    span_ns: int
    begin: I64  # thread number and time as one number, ascending
    end: I64  # ascending, too
    before_begin: F64  # (rows + 1) x roles: ns of all rows before, in the order of begin
    before_end: F64  # in the order of end

    def parts(self, thread: I64, begin: I64, end: I64) -> F64:
        """The part of each of ROLES in each span of a thread (number); zeros: not known."""
        base = thread * self.span_ns
        begun = np.searchsorted(self.begin, base + self._since_first(end), side="left")
        ended = np.searchsorted(self.end, base + self._since_first(begin), side="right")
        ns = np.maximum(self.before_begin[begun] - self.before_end[ended], 0.0)
        whole = ns.sum(axis=1, keepdims=True)
        part: F64 = ns / np.maximum(whole, 1.0)
        part[part < LEAST_PART] = 0.0
        rest = np.where(whole[:, 0] > 0, 1 - part.sum(axis=1), 0.0)
        part[np.arange(part.shape[0]), part.argmax(axis=1)] += rest
        return part

    def _since_first(self, t: I64) -> I64:
        return np.clip(t - self.first_ns, 0, self.span_ns - 1)

    def divide(self, thread: I64, begin: I64, end: I64) -> tuple[I64, I64, I64, I64]:
        """Cut spans of threads by role: span, begin, end, and index in ROLES (-1: not known)."""
        part = self.parts(thread, begin, end)
        edges = begin[:, None] + np.rint(np.cumsum(part, axis=1) * (end - begin)[:, None]).astype(np.int64)
        edges = np.column_stack([begin, edges])
        is_known = part.sum(axis=1) > 0
        edges[~is_known, -1] = end[~is_known]
        span, role = np.nonzero(edges[:, 1:] > edges[:, :-1])
        role_known = np.where(is_known[span], role, -1)
        return span, edges[span, role], edges[span, role + 1], role_known


def make_unlogged(times: ThreadTime | None) -> Unlogged | None:
    """From the table thread_time; None: it was not recorded, or no such thread ran."""
    if times is None:
        return None
    rows = np.flatnonzero(times.state.is_(RUNNABLE) & times.by.is_in(ROLES) & (times.ns > 0))
    if not rows.size:
        return None
    begin, until = times.bin_ns[rows], times.bin_ns[rows] + times.bin_length_ns[rows]
    first, span = int(begin.min()), int(until.max() - begin.min()) + 1
    base = times.thread[rows].astype(np.int64) * span - first
    ns = np.zeros((rows.size, len(ROLES)))
    for role, name in enumerate(ROLES):
        ns[:, role] = np.where(times.by.is_(name)[rows], times.ns[rows], 0)
    by_begin, by_end = np.argsort(base + begin), np.argsort(base + until)
    return Unlogged(
        first,
        span,
        (base + begin)[by_begin],
        (base + until)[by_end],
        _before(ns[by_begin]),
        _before(ns[by_end]),
    )


def _before(ns: F64) -> F64:
    return np.vstack([np.zeros((1, ns.shape[1])), np.cumsum(ns, axis=0)])
