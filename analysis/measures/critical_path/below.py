# SPDX-License-Identifier: BSD-2-Clause
"""What is below a loop device's request: a worker of the loop device, and the disk that has its file.

    issue ... a worker runs, or waits for a CPU ... the disk below has its part ... handed back ... completion

The recorder tells when the disk below had its part, where the loop device does direct I/O. The worker is the
one that ran as that was sent: of all that ever worked for a loop device, the last that came to a CPU. Where
the recorder does not tell (flushes, discards, without direct I/O, a file that is on no disk), the worker is
the one that was at work as the request was issued, or else the first that was woken afterwards: a weak link.
The time after it fell asleep for want of work is the device's as a whole. A kworker that sleeps in other work
(it writes back), or for a request to a loop device, serves none from its idle time before to the one after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.causes.classify import function_name
from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.stretches import I32, NONE, Mask
from analysis.rundir.device_number import MINOR_BITS
from analysis.tables.store import I64

LOOP_MAJOR = 7
US = 1000
WORK, OF_LOOP = "process_one_work", "loop_"  # a kworker's caller of works, and the begin of the loop device's


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
    is_idle: Mask,
    is_elsewhere: Mask,
) -> Below:
    """begin_us, end_us: of the disk below, since the issue; an end of 0: not told. is_worker: threads.

    is_idle: intervals asleep for want of work. is_elsewhere: asleep in work that is no loop device's.
    """
    is_told = end_us > 0
    begin = np.where(is_told, np.minimum(issue_ns + begin_us * US, complete_ns), issue_ns)
    end = np.where(is_told, np.minimum(issue_ns + end_us * US, complete_ns), issue_ns)
    end = np.maximum(begin, end)
    is_busy, number = _at_work(intervals, is_worker, is_idle, is_elsewhere)
    is_run = is_busy & (intervals.state == State.RUNNING)
    runs = _Spells.of(intervals, is_run, np.arange(is_run.size))
    is_loop = is_loop_device(dev)
    worker, until = runs.last(issue_ns, np.where(is_told, begin, issue_ns))
    at_work, its_until = _Spells.of(intervals, is_busy, number).first(issue_ns, complete_ns)
    worker = np.where(is_told, worker, np.where(is_loop, at_work, NONE)).astype(np.int32)
    until = np.where(is_told, until, np.where(is_loop, its_until, issue_ns))
    begin, end = np.where(is_told, begin, until), np.where(is_told, end, until)
    return Below(is_told, worker, (worker >= 0) & ~is_told, until, begin, end)


def is_loop_device(dev: I64) -> Mask:
    """Which device numbers are loop devices'."""
    return np.asarray(dev >> MINOR_BITS == LOOP_MAJOR)


def in_other_work(intervals: Intervals, stacks: Mapping[int, Sequence[str]], waits_for_loop: Mask) -> Mask:
    """Intervals asleep in work that is no loop device's, by the call path.

    waits_for_loop: until a request to one was over.
    """
    ids, row = np.unique(intervals.stack_id, return_inverse=True)
    other = np.zeros(ids.size, dtype=np.bool_)
    for i, one in enumerate(ids.tolist()):
        names = [function_name(frame) for frame in stacks.get(one) or ()]
        at = names.index(WORK) if WORK in names else 0
        other[i] = at > 0 and not any(name.startswith(OF_LOOP) for name in names[:at])
    return np.asarray((intervals.state == State.ASLEEP) & (other[row] | waits_for_loop))


def _at_work(intervals: Intervals, is_worker: Mask, is_idle: Mask, is_elsewhere: Mask) -> tuple[Mask, I64]:
    """When workers were at work, and the number of each spell of it.

    A spell is from the wake-up that gave a worker some until it slept for want of more; none of another work.
    """
    known = np.isin(intervals.state, (State.RUNNING, State.RUNNABLE, State.ASLEEP))
    is_busy = known & ~is_idle & is_worker[intervals.thread]
    is_first = np.ones(is_busy.size, dtype=np.bool_)
    is_first[1:] = ~is_busy[:-1] | (intervals.thread[1:] != intervals.thread[:-1])
    number = np.cumsum(is_first, dtype=np.int64)
    elsewhere = np.zeros(is_busy.size + 1, dtype=np.bool_)
    elsewhere[number[is_busy & is_elsewhere]] = True
    return is_busy & ~elsewhere[number], number


@dataclass(frozen=True)
class _Spells:
    """Spans of threads, by begin."""

    thread: I32
    begin: I64
    end: I64
    latest: I64  # of those that began before each, or with it: the one that ended last

    @classmethod
    def of(cls, intervals: Intervals, mask: Mask, number: I64) -> _Spells:
        """Intervals of the mask; those of one number, which follow each other, are one span."""
        rows = np.flatnonzero(mask)
        first = rows[np.flatnonzero(np.diff(number[rows], prepend=NONE - 1))]
        last = rows[np.flatnonzero(np.diff(number[rows], append=NONE - 1))]
        order = np.argsort(intervals.begin[first], kind="stable")
        end = intervals.end[last][order]
        is_latest = end == np.maximum.accumulate(end) if end.size else end > 0
        latest = np.maximum.accumulate(np.where(is_latest, np.arange(end.size), 0))
        return cls(intervals.thread[first][order], intervals.begin[first][order], end, latest)

    def last(self, after: I64, t: I64) -> tuple[I32, I64]:
        """The last span begun by each moment t, or, if that is over, the one that lasted longest.

        Its thread and its end, t at most. NONE, and `after`: none lasted until after that.
        """
        if not self.begin.size:
            return np.full(t.size, NONE, dtype=np.int32), after
        at = np.searchsorted(self.begin, t, side="right") - 1
        last = np.maximum(at, 0)
        chosen = np.where(self.end[last] < t, self.latest[last], last)
        is_found = (at >= 0) & (self.end[chosen] > after)
        thread = np.where(is_found, self.thread[chosen], NONE).astype(np.int32)
        return thread, np.where(is_found, np.minimum(self.end[chosen], t), after)

    def first(self, t: I64, before: I64) -> tuple[I32, I64]:
        """The span in which each moment t is, or else the first that begins later, before a second moment.

        Its thread and its end, that second moment at most. NONE, and t: none.
        """
        if not self.begin.size:
            return np.full(t.size, NONE, dtype=np.int32), t
        at = np.searchsorted(self.begin, t, side="right") - 1
        last = np.maximum(at, 0)
        over = np.where(self.end[last] <= t, self.latest[last], last)
        is_in = (at >= 0) & (self.end[over] > t)
        following = np.minimum(at + 1, self.begin.size - 1)
        chosen = np.where(is_in, over, following)
        is_found = is_in | ((at + 1 < self.begin.size) & (self.begin[following] < before))
        thread = np.where(is_found, self.thread[chosen], NONE).astype(np.int32)
        return thread, np.where(is_found, np.minimum(self.end[chosen], before), t)
