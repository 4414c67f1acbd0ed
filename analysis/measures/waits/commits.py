# SPDX-License-Identifier: BSD-2-Clause
"""Through whose commit a wait went: the workload's own sync, another process's, or the file system's.

A piece of the path has the event that a thread on the way worked for. Where it ends in a request of the
journal without one, it goes through the commit of the tested file system that was under way: of several, one
that the workload asked for counts as its own.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from analysis.measures.common.intervals import joined
from analysis.tables import event
from analysis.tables.load import Tables
from analysis.tables.store import I64, Categorical

COMMITS = (
    "jbd2_commit",
    "jbd2_fast_commit",
    "xfs_log_force",
    "btrfs_commit",
    "f2fs_checkpoint",
    "nilfs_segment",
)
# another process's call waits for these; every other reason is the file system's own need
ASKED = ("fsync", "sync", "syncfs", "asked", "synchronous", "fdatasync", "umount")
JBD2, FORCE = "jbd2_commit", "xfs_log_force"
SPACE = ("jbd2_checkpoint", "xfs_grant_sleep")  # events of who waits for room
NONE = -1
MOST = 0.5  # share of the journal's bytes
MOST_AFTER_NS = 20_000_000  # a sync flushes the disk's cache at most so long after its log force


class Whose(StrEnum):
    """Who asked for a commit."""

    OWN = "own"  # a call of the workload
    OTHERS = "others'"  # a call of another process
    FILESYSTEM = "file system's"  # its timer, its size, space in the log
    NONE = ""  # no commit


WHOSE = tuple(Whose)


def is_tested(table: event.Event, own: frozenset[int]) -> npt.NDArray[np.bool_]:
    """Which events are the tested file system's. own: its device numbers; empty: all are."""
    return np.asarray((table.dev == 0) | np.isin(table.dev, sorted(own)) | (not own))


class Commits:
    """The tested file system's commits in the table event, and which was under way at a time."""

    def __init__(self, tables: Tables, own_numbers: frozenset[int] = frozenset()) -> None:
        """own_numbers: see is_tested()."""
        table = tables.get(event.TABLE)
        self._of_event = np.zeros(0, dtype=np.int64)  # index in WHOSE by row of the table
        none = np.zeros(0, dtype=np.int64)
        self._begin, self._end, self._row = none, none, none
        self._space = (none, none)
        self._is_own_force, self._start, self._to_log = np.zeros(0, dtype=np.bool_), none, none
        self._forces = (none, none, none)
        self._own_forces = (none, none, none)
        self._others = self._all_others = (none, none)
        self.turns = none  # ascending: where a log force may change from waiting for others' to its own
        # commits that other processes asked for wrote most of the journal's blocks, so that it filled up
        self.others_fill = False
        if table is None:
            return
        is_mine = is_tested(table, own_numbers)
        is_commit = table.kind.is_in(COMMITS) & is_mine
        is_own = ~table.asker_call.is_("none")
        is_asked = table.why.is_in(ASKED) & (table.asker_tid > 0)
        whose = np.where(is_own, WHOSE.index(Whose.OWN), WHOSE.index(Whose.FILESYSTEM))
        whose = np.where(is_asked & ~is_own, WHOSE.index(Whose.OTHERS), whose)
        self._of_event = np.where(is_commit, whose, WHOSE.index(Whose.NONE)).astype(np.int64)
        others = np.flatnonzero(is_commit & table.kind.is_in((JBD2, FORCE)) & is_asked & ~is_own)
        if others.size:
            self._others = joined(table.start_ns[others], table.end_ns[others])
        others = np.flatnonzero(is_commit & is_asked & ~is_own)
        if others.size:
            self._all_others = joined(table.start_ns[others], table.end_ns[others])
        is_force = is_mine & table.kind.is_(FORCE) & (table.end_ns > table.start_ns)
        self._is_own_force, self._start = is_force & is_own, table.start_ns
        self._to_log = table.start_ns + table.p1_ns
        forces = np.flatnonzero(is_force & is_asked & ~is_own)
        forces = forces[np.argsort(table.start_ns[forces], kind="stable")]
        if forces.size and self._is_own_force.any():
            own = np.flatnonzero(self._is_own_force)
            self.turns = np.unique(np.concatenate((table.end_ns[forces], self._to_log[own])))
            own = own[np.lexsort((table.end_ns[own], table.tid[own]))]
            self._own_forces = (table.tid[own], table.end_ns[own], own)
            # the latest end of all that began until then, and whose it is
            latest = np.maximum.accumulate(table.end_ns[forces])
            is_new = np.concatenate(([True], latest[1:] > latest[:-1]))
            last = forces[np.maximum.accumulate(np.where(is_new, np.arange(forces.size), 0))]
            self._forces = (table.start_ns[forces], latest, last)
        space = np.flatnonzero(is_mine & table.kind.is_in(SPACE) & ~table.asker_call.is_("none"))
        if space.size:
            self._space = joined(table.start_ns[space], table.end_ns[space])
        self.others_fill = _others_fill(table, self._of_event)
        rows = np.flatnonzero(is_commit & (table.end_ns > table.start_ns))
        # own ones last, so that they win where several were under way
        order = np.lexsort((table.start_ns[rows], self._of_event[rows] == WHOSE.index(Whose.OWN)))
        rows = rows[order]
        self._row, self._begin, self._end = rows, table.start_ns[rows], table.end_ns[rows]

    def is_for_space(self, t_ns: I64) -> npt.NDArray[np.bool_]:
        """Whether a thread of the workload waits for room in the journal at each time."""
        return _is_in(self._space, t_ns)

    def of(self, events: I64, t_ns: I64, is_journal: npt.NDArray[np.bool_]) -> I64:
        """Row of the commit that each piece went through; NONE: none. is_journal: it ends in its request."""
        found = events.copy()
        known = events >= 0
        found[known] = np.where(self._of_event[events[known]] != WHOSE.index(Whose.NONE), events[known], NONE)
        open_ = np.flatnonzero(is_journal & (found < 0))
        if open_.size and self._row.size:
            found[open_] = self._under_way(t_ns[open_])
        return found

    def _under_way(self, t_ns: I64) -> I64:
        """Row of a commit under way at each time."""
        found = np.full(t_ns.size, NONE, dtype=np.int64)
        is_own = self._of_event[self._row] == WHOSE.index(Whose.OWN)
        for part in (~is_own, is_own):
            begin, end, row = self._begin[part], self._end[part], self._row[part]
            if not row.size:
                continue
            at = np.searchsorted(begin, t_ns, side="right") - 1
            hit = (at >= 0) & (end[np.maximum(at, 0)] >= t_ns)
            found[hit] = row[at[hit]]
        return found

    def is_beside(self, t_ns: I64) -> npt.NDArray[np.bool_]:
        """Whether jbd2 or XFS's log writes at each time what another process asked for: the disk is busy."""
        return _is_in(self._others, t_ns)

    def is_others(self, t_ns: I64) -> npt.NDArray[np.bool_]:
        """Whether a commit that another process asked for is under way at each time."""
        return _is_in(self._all_others, t_ns)

    def ahead(self, commit: I64, t_ns: I64) -> I64:
        """Another process's log force that is ahead of the workload's own one at each time; NONE: none.

        XFS writes its log in order: until the log buffer that a force waits for is being written, the force
        waits for those before it. From then on it is its own. commit: rows of the table.
        """
        found = np.full(t_ns.size, NONE, dtype=np.int64)
        mine = np.flatnonzero(commit >= 0)
        mine = mine[self._is_own_force[commit[mine]]]
        mine = mine[t_ns[mine] < self._to_log[commit[mine]]]
        found[mine] = self._force_before(self._start[commit[mine]], t_ns[mine])
        return found

    def joined_before(self, tid: I64, t_ns: I64) -> I64:
        """The log force of another process that the last own force of each thread met; NONE: none.

        Who finds its changes in a log buffer that another process's force writes does not know whether its
        data were on the disk before that, and flushes the disk's cache once more. t_ns: of that flush.
        """
        found = np.full(t_ns.size, NONE, dtype=np.int64)
        of_tid, end, row = self._own_forces
        if not row.size or not t_ns.size:
            return found
        zero, span = int(end.min()), int(end.max() - end.min()) + MOST_AFTER_NS + 2
        key = of_tid.astype(np.int64) * span + (end - zero)
        at = np.searchsorted(key, tid * span + np.clip(t_ns - zero, -1, span - 1), side="right") - 1
        last = np.maximum(at, 0)
        hit = np.flatnonzero((at >= 0) & (of_tid[last] == tid) & (t_ns - end[last] <= MOST_AFTER_NS))
        start = self._start[row[last[hit]]]
        found[hit] = self._force_before(start, start)
        return found

    def _force_before(self, before_ns: I64, t_ns: I64) -> I64:
        """Another process's force that began before a time and is under way at the other one; NONE: none."""
        start, until, row = self._forces
        found = np.full(t_ns.size, NONE, dtype=np.int64)
        if not start.size:
            return found
        at = np.searchsorted(start, before_ns, side="left") - 1
        hit = (at >= 0) & (until[np.maximum(at, 0)] > t_ns)
        found[hit] = row[at[hit]]
        return found

    def whose(self, commit: I64, by_others: npt.NDArray[np.bool_]) -> Categorical:
        """Who asked for each commit, by row of the table event; by_others: without one, who ended it."""
        codes = np.full(commit.size, WHOSE.index(Whose.NONE), dtype=np.int64)
        known = commit >= 0
        codes[known] = self._of_event[commit[known]]
        codes[~known & by_others] = WHOSE.index(Whose.OTHERS)
        return Categorical(codes, WHOSE)


def _is_in(spans: tuple[I64, I64], t_ns: I64) -> npt.NDArray[np.bool_]:
    """Whether each time is in one of these spans, which ascend and do not overlap."""
    begin, end = spans
    if not begin.size:
        return np.zeros(t_ns.size, dtype=np.bool_)
    at = np.searchsorted(begin, t_ns, side="right") - 1
    return np.asarray((at >= 0) & (end[np.maximum(at, 0)] > t_ns))


def _others_fill(table: event.Event, whose: I64) -> bool:
    size = np.bincount(whose, table.bytes, len(WHOSE))
    known = size.sum() - size[WHOSE.index(Whose.NONE)]
    return bool(known > 0 and size[WHOSE.index(Whose.OTHERS)] >= MOST * known)
