# SPDX-License-Identifier: BSD-2-Clause
"""The threads whose progress is the workload's: one, or all that are at work most of their time.

A thread is at work unless it sleeps of its own will: by the cause of its stack (its children, a pipe, a timer
of its own), or without a known cause in an interruptible sleep that no request or kernel thread ends. If not
more than ONE_THREAD threads are at work on average, the path is that of one thread, the workload's longest:
it waits for whoever else is at work. Else it is the mean over the threads that are at work at least
LEAST_SHARE of their life. So it is, too, where the one thread's path is mostly its own pauses: it then looks
now and then how far the others are (fio does), and does not wait for them. But a workload that itself pauses
most of its time (a rate, think time) has no other threads at work than those of its start: they are no roots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.stretches import I32, Mask
from analysis.tables.store import I64

ONE_THREAD = 1.5
LEAST_SHARE = 0.5
MOST_PAUSED = 0.5  # of the path of one thread
LEAST_COVERED = 0.5  # of the one thread's time, by the life of all others at work
LEAST_CALLER = 0.5  # of the longest time in calls on a watched system
MOST_CALLERS = 64
LEAST_OF_MOST = 0.01  # threads at work for less than this share of the busiest one's time are no roots


@dataclass(frozen=True)
class Roots:
    """Threads (indices) with begin and end of the time that is looked at."""

    thread: I32
    begin: I64
    end: I64
    is_one: bool
    at_work: float  # mean number of threads at work


_NOBODY = Roots(
    np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), True, 0.0
)


def stand_for(busy: Roots, one: Roots) -> bool:
    """Whether the threads at work live long enough to stand for the workload in place of its one thread."""
    life, needed = int((busy.end - busy.begin).sum()), int((one.end - one.begin).sum())
    return bool(busy.thread.size) and life >= LEAST_COVERED * needed


def choose_roots(
    intervals: Intervals,
    workload: I64,
    start_ns: I64,
    end_ns: I64,
    is_voluntary: Mask,
    window: tuple[int, int],
) -> tuple[Roots, Roots]:
    """The roots, and all threads at work: the same, if there are several roots.

    workload: the workload's threads. start_ns, end_ns: of each thread's life, 0: not known.

    is_voluntary: of each interval, a sleep of the thread's own will. window: the workload's time.
    """
    lives = _lives(intervals, workload, start_ns, end_ns, window)
    if not lives.thread.size:
        return _NOBODY, _NOBODY
    workload, begin, end = lives.thread, lives.begin, lives.end
    work = _work(intervals, lives, is_voluntary)
    at_work = float(work.sum()) / (lives.last - lives.first)
    chosen = np.flatnonzero((work >= LEAST_SHARE * (end - begin)) & (work >= LEAST_OF_MOST * work.max()))
    busy = _roots(lives, chosen, chosen.size == 1, at_work)
    if at_work > ONE_THREAD and chosen.size:
        return replace(busy, is_one=False), busy
    longest = np.array([int(np.argmax(end - begin))])  # of several, the one that was first seen
    return _roots(lives, longest, True, at_work), busy


def choose_callers(
    intervals: Intervals,
    workload: I64,
    start_ns: I64,
    end_ns: I64,
    is_voluntary: Mask,
    window: tuple[int, int],
    in_calls_ns: Mapping[int, int],
) -> Roots:
    """The roots of a watched system, whose threads do not work for one another.

    These are the threads that were longest in calls on its file systems, down to LEAST_CALLER of the longest.
    Without calls: those that were longest at work. in_calls_ns: by number of thread.
    """
    lives = _lives(intervals, workload, start_ns, end_ns, window)
    if not lives.thread.size:
        return _NOBODY
    work = _work(intervals, lives, is_voluntary)
    numbers = intervals.numbers[lives.thread].tolist()
    weight = np.array([in_calls_ns.get(number, 0) for number in numbers], dtype=np.float64)
    weight = weight if weight.any() else work
    most = np.argsort(-weight, kind="stable")[:MOST_CALLERS]
    chosen = np.sort(most[(weight[most] >= LEAST_CALLER * weight.max()) & (weight[most] > 0)])
    return _roots(lives, chosen, chosen.size == 1, float(work.sum()) / (lives.last - lives.first))


@dataclass(frozen=True)
class _Lives:
    """Threads (indices) that lived in the time from first to last, and when."""

    thread: I64
    begin: I64
    end: I64
    first: int
    last: int


def _lives(
    intervals: Intervals, workload: I64, start_ns: I64, end_ns: I64, window: tuple[int, int]
) -> _Lives:
    first, last = max(window[0], intervals.start_ns), min(window[1], intervals.end_ns)
    begin = np.clip(np.where(start_ns > 0, start_ns, first), first, last)[workload]
    end = np.clip(np.where(end_ns > 0, end_ns, last), first, last)[workload]
    alive = np.flatnonzero(end > begin)
    return _Lives(workload[alive], begin[alive], end[alive], first, last)


def _work(intervals: Intervals, lives: _Lives, is_voluntary: Mask) -> F64:
    """How long each of the threads was at work, ns."""
    rank = np.full(intervals.numbers.size, -1)
    rank[lives.thread] = np.arange(lives.thread.size)
    of = rank[intervals.thread]
    idle = (intervals.state == State.OVER) | (intervals.state == State.UNRECORDED) | is_voluntary
    rows = np.flatnonzero((of >= 0) & ~idle)
    begin, end = lives.begin[of[rows]], lives.end[of[rows]]
    ns = np.minimum(intervals.end[rows], end) - np.maximum(intervals.begin[rows], begin)
    return np.bincount(of[rows], np.maximum(ns, 0), lives.thread.size).astype(np.float64)


def _roots(lives: _Lives, chosen: I64, is_one: bool, at_work: float) -> Roots:
    return Roots(
        lives.thread[chosen].astype(np.int32), lives.begin[chosen], lives.end[chosen], is_one, at_work
    )
