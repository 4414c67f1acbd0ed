# SPDX-License-Identifier: BSD-2-Clause
"""What each logged thread did at each instant: intervals made of the tables switch and wake.

The intervals of a thread lie without gap or overlap from the start of the recording to its end, whatever the
tables hold. A switch of state "preempted" leaves the thread runnable, any other puts it to sleep until a
wake-up, from which on it is runnable until it comes to a CPU.

- A wake-up may be recorded up to microseconds before the sleeper's own switch: the last one since the thread
  came to the CPU counts if none follows, and the thread was runnable all the time.
- Between two switches to a CPU, or two from it, one was lost: the thread's state is unknown there. Of two
  from it, what is known stays: the sleep until its wake-up, and until when others had the CPU that it left.
- Time that the recorder gave up for its budget (table sched_window) is not recorded. The first switch after
  it tells the state since its end; so does the first switch of the recording.
- A thread that slept as recording stopped, and sleeps when it is next seen, is taken to have slept in all the
  recorded time between: a weak link to the wake-up that ended that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.measures.critical_path.stretches import (
    EDGE,
    I32,
    IN,
    NONE,
    OUT,
    U8,
    Groups,
    Mask,
    Spans,
    Stretches,
    make_events,
    make_stretches,
    parts_of,
    wakes_of,
)
from analysis.tables.store import I64
from analysis.tables.switch import ENDED, PREEMPTED, Switch
from analysis.tables.wake import Wake


class State(IntEnum):
    """What a thread did in an interval."""

    RUNNING = 0
    RUNNABLE = 1
    ASLEEP = 2
    OVER = 3  # the thread has ended
    UNKNOWN = 4  # a switch was lost
    UNRECORDED = 5  # given up for the recorder's budget


@dataclass(frozen=True)
class Intervals:
    """Rows sorted by thread and start. Threads are known by their index in `numbers`."""

    start_ns: int  # of every thread's first interval
    end_ns: int  # of every thread's last interval
    numbers: I64  # thread numbers, ascending
    thread: I32
    begin: I64
    end: I64
    state: U8
    wake: I32  # row of the table wake that ended the sleep; NONE: not seen, or no sleep
    cpu: I32  # running: where; runnable: where it came to run; else NONE
    stack_id: I32  # call path of a sleep; NONE: not known
    slept: npt.NDArray[np.int16]  # code of the state of a sleep; NONE: not known, or no sleep
    event: I32  # row of an event that the thread worked for; NONE: none
    whole: I32  # number of the interval before events cut it
    weak: Mask  # `wake` may be of a later sleep
    is_cut: Mask  # the recording, or a recorded part of it, ends within the interval
    key: I64  # thread and begin as one number, ascending

    def keys(self, thread: npt.NDArray[np.integer], t: I64) -> I64:
        """Numbers that are to `key` as thread and time are to thread and begin."""
        return np.asarray(thread.astype(np.int64) * (self.end_ns - self.start_ns + 1) + (t - self.start_ns))

    def index(self, numbers: npt.NDArray[np.integer]) -> I32:
        """Index of each thread number; NONE: not logged."""
        if not self.numbers.size:
            return np.full(numbers.size, NONE, dtype=np.int32)
        at = np.minimum(np.searchsorted(self.numbers, numbers), self.numbers.size - 1)
        return np.where(self.numbers[at] == numbers, at, NONE).astype(np.int32)


def fits(threads: int, start_ns: int, end_ns: int) -> bool:
    """Whether thread and time fit into one number."""
    return (threads + 1) * (end_ns - start_ns + 2) < 1 << 62


class _Slept:
    """The state of each stretch, and of a sleep what ended it and what is known of it."""

    def __init__(self, switch: Switch, stretches: Stretches, wake: I32, wake_ns: I64) -> None:
        self.stretches = stretches
        self.wake_ns = wake_ns
        self.came_ns = stretches.end  # to a CPU; behind it a thread of is_part_known is in an unknown state
        left, right, size = stretches.left, stretches.right, stretches.left.size
        self.state = np.full(size, State.UNKNOWN, dtype=np.uint8)
        self.cpu, self.stack_id = (np.full(size, NONE, dtype=np.int32) for _ in range(2))
        self.slept = np.full(size, NONE, dtype=np.int16)
        self.weak = np.zeros(size, dtype=np.bool_)
        self.wake = np.full(size, NONE, dtype=np.int32)
        self.is_part_known = np.zeros(size, dtype=np.bool_)
        if not size:
            return
        from_cpu, to_cpu = left == OUT, (right == IN) | (right == EDGE)
        ended = from_cpu & switch.state.is_(ENDED)[stretches.left_row]
        preempted = from_cpu & switch.state.is_(PREEMPTED)[stretches.left_row]
        asleep = (from_cpu & ~ended & ~preempted & to_cpu) | ((left == EDGE) & (right == IN))
        self.state[((left == IN) & (right != IN)) | ((left == EDGE) & (right == OUT))] = State.RUNNING
        self.state[preempted & to_cpu] = State.RUNNABLE
        self.state[asleep] = State.ASLEEP
        self.state[ended & (right == EDGE)] = State.OVER
        # it came to a CPU unseen, and left it
        self.is_part_known = from_cpu & (right == OUT) & ~ended & (preempted | (wake >= 0))
        self.state[self.is_part_known] = State.ASLEEP
        self.wake_ns = np.where(self.is_part_known & preempted, stretches.begin, wake_ns)
        self.came_ns = _others_until(switch, stretches, self.wake_ns, np.flatnonzero(self.is_part_known))
        asleep |= self.is_part_known & ~preempted
        # where it runs, or came to run; a thread that waits at an edge is expected where it left
        row = np.where(right == EDGE, stretches.left_row, stretches.right_row)
        self.cpu = switch.cpu[row].astype(np.int32)
        known = asleep & from_cpu
        self.stack_id = np.where(known, switch.stack_id[stretches.left_row], NONE).astype(np.int32)
        self.slept[known] = switch.state.codes[stretches.left_row[known]]
        self.wake = np.where(asleep, wake, NONE).astype(np.int32)


def _others_until(switch: Switch, stretches: Stretches, begin: I64, rows: I64) -> I64:
    """Until when others had the CPU that a thread left; the end of all but these stretches."""
    until = stretches.end.copy()
    if rows.size:
        order = np.lexsort((switch.t_ns, switch.cpu))
        same = switch.cpu[order[1:]] == switch.cpu[order[:-1]]
        before = np.zeros(order.size, dtype=np.int64)  # the CPU's switch before each
        before[order[1:]] = np.where(same, switch.t_ns[order[:-1]], 0)
        last = before[stretches.right_row[rows]]
        until[rows] = np.minimum(np.maximum(last, begin[rows]), stretches.end[rows])
    return until


def _bridge(
    slept: _Slept, groups: Groups, given_up: Spans, part_begin: I64, part_end: I64, rows: _Rows
) -> None:
    """Add the time given up, and that of parts in which a thread was not switched.

    In such a part it sleeps if it did before and after, until the next wake-up that was seen; else its state
    is unknown.
    """
    size = groups.thread.size
    if not size:
        return
    is_first = np.concatenate(([True], groups.thread[1:] != groups.thread[:-1]))
    is_last = np.concatenate((is_first[1:], [True]))
    # a link: from the end of one group to the begin of the next, or from or to an end of the recording
    first, last, inner = np.flatnonzero(is_first), np.flatnonzero(is_last), np.flatnonzero(~is_last)
    thread = np.concatenate((groups.thread[first], groups.thread[inner], groups.thread[last]))
    left = np.concatenate((np.full(first.size, NONE), inner, last))
    right = np.concatenate((first, inner + 1, np.full(last.size, NONE)))
    from_part = np.where(left >= 0, groups.part[left] + 1, 0)
    to_part = np.where(right >= 0, groups.part[right], part_begin.size)
    head, tail = groups.head[right], groups.tail[left]
    slept_before = (left < 0) | ((slept.state[tail] == State.ASLEEP) & (slept.wake[tail] < 0))
    slept_after = (right < 0) | (slept.state[head] == State.ASLEEP)
    asleep = slept_before & slept_after
    both = asleep & (left >= 0) & (right >= 0)
    slept.wake[tail[both]] = slept.wake[head[both]]
    slept.weak[tail[both]] = True
    for known in (slept.stack_id, slept.slept):
        known[head[both]] = np.where(known[head[both]] < 0, known[tail[both]], known[head[both]])
    of = np.repeat(np.arange(thread.size), to_part - from_part)
    part = from_part[of] + _number(to_part - from_part)
    source = np.where(right >= 0, head, tail)[of]
    rows.add(
        thread=thread[of],
        begin=part_begin[part],
        end=part_end[part],
        state=np.where(asleep[of], State.ASLEEP, State.UNKNOWN),
        wake=np.where(asleep[of] & (right[of] >= 0), slept.wake[source], NONE),
        stack_id=np.where(asleep[of], slept.stack_id[source], NONE),
        slept=np.where(asleep[of], slept.slept[source], NONE),
        weak=np.ones(of.size, dtype=np.bool_),
        is_cut=np.ones(of.size, dtype=np.bool_),
    )
    # gap g lies between the parts g and g + 1
    first_gap = np.maximum(from_part - 1, 0)
    last_gap = np.minimum(to_part, given_up.begin.size)
    count = np.maximum(last_gap - first_gap, 0)
    of = np.repeat(np.arange(thread.size), count)
    gap = first_gap[of] + _number(count)
    state = np.full(of.size, State.UNRECORDED)
    rows.add(thread=thread[of], begin=given_up.begin[gap], end=given_up.end[gap], state=state)


def _number(count: I64) -> I64:
    """0, 1, ... for each of `count` rows that an entry is repeated for."""
    return np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)


class _Rows:
    """Rows of Intervals, in any order."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []

    def add(self, **columns: npt.NDArray[Any]) -> None:
        """Add rows; columns that are left out are NONE or false."""
        self.parts.append(columns)

    def add_stretches(self, slept: _Slept) -> None:
        """A sleep is two intervals: asleep until the wake-up, then runnable; three if a switch was lost."""
        stretches = slept.stretches
        asleep = slept.state == State.ASLEEP
        awake = np.flatnonzero(asleep)
        on_cpu = (slept.state == State.RUNNING) | (slept.state == State.RUNNABLE)
        self.add(
            thread=stretches.thread,
            begin=stretches.begin,
            end=np.where(asleep, slept.wake_ns, stretches.end),
            state=slept.state,
            wake=slept.wake,
            cpu=np.where(on_cpu, slept.cpu, NONE),
            stack_id=slept.stack_id,
            slept=slept.slept,
            weak=slept.weak,
            is_cut=(stretches.left == EDGE) | (stretches.right == EDGE),
        )
        self.add(
            thread=stretches.thread[awake],
            begin=slept.wake_ns[awake],
            end=slept.came_ns[awake],
            state=np.full(awake.size, State.RUNNABLE),
            cpu=slept.cpu[awake],
        )
        lost = np.flatnonzero(slept.is_part_known)
        self.add(
            thread=stretches.thread[lost],
            begin=slept.came_ns[lost],
            end=stretches.end[lost],
            state=np.full(lost.size, State.UNKNOWN),
        )

    def intervals(self, numbers: I64, start_ns: int, end_ns: int) -> Intervals:
        """All rows that have a length."""

        def column(name: str, kind: type, default: int = NONE) -> npt.NDArray[Any]:
            parts = [part.get(name, np.full(part["begin"].size, default)) for part in self.parts]
            return np.concatenate(parts).astype(kind, copy=False)

        thread, begin, end = column("thread", np.int32), column("begin", np.int64), column("end", np.int64)
        kept = np.flatnonzero(end > begin)
        key = thread.astype(np.int64) * (end_ns - start_ns + 1) + (begin - start_ns)
        order = kept[np.argsort(key[kept], kind="stable")]
        return Intervals(
            start_ns=start_ns,
            end_ns=end_ns,
            numbers=numbers,
            thread=thread[order],
            begin=begin[order],
            end=end[order],
            state=column("state", np.uint8)[order],
            wake=column("wake", np.int32)[order],
            cpu=column("cpu", np.int32)[order],
            stack_id=column("stack_id", np.int32)[order],
            slept=column("slept", np.int16)[order],
            event=np.full(order.size, NONE, dtype=np.int32),
            whole=np.arange(order.size, dtype=np.int32),
            weak=column("weak", np.bool_, 0)[order],
            is_cut=column("is_cut", np.bool_, 0)[order],
            key=key[order],
        )


def make_intervals(switch: Switch, wake: Wake, given_up: Spans, start_ns: int, end_ns: int) -> Intervals:
    """The intervals of all threads that the table switch has. given_up: within [start, end)."""
    events, numbers = make_events(switch, wake, given_up, start_ns, end_ns)
    part_begin, part_end = parts_of(given_up, start_ns, end_ns)
    stretches, groups = make_stretches(events, part_begin, part_end)
    slept = _Slept(switch, stretches, *wakes_of(events, stretches, part_begin))
    rows = _Rows()
    if given_up.begin.size:
        _bridge(slept, groups, given_up, part_begin, part_end, rows)
    rows.add_stretches(slept)
    return rows.intervals(numbers, start_ns, end_ns)


def _outermost(thread: I32, begin: I64, end: I64, intervals: Intervals) -> I64:
    """Rows of the spans that lie in no other of the same thread, by thread and begin, without overlap."""
    key, end_key = intervals.keys(thread, begin), intervals.keys(thread, end)
    order = np.lexsort((-end_key, key))
    if not order.size:
        return order
    latest = np.maximum.accumulate(end_key[order])
    is_outer = np.concatenate(([True], key[order][1:] >= latest[:-1]))
    return np.asarray(order[is_outer])


def with_events(intervals: Intervals, number: npt.NDArray[np.integer], begin: I64, end: I64) -> Intervals:
    """Cut the intervals at the borders of spans of their threads, and set `event` to the span's row.

    Of spans within each other the outermost counts. number: the spans' threads, by number.
    """
    thread = intervals.index(number)
    begin = np.clip(begin, intervals.start_ns, intervals.end_ns)
    end = np.clip(end, intervals.start_ns, intervals.end_ns)
    rows = np.flatnonzero((thread >= 0) & (end > begin))
    rows = rows[_outermost(thread[rows], begin[rows], end[rows], intervals)]
    if not rows.size:
        return intervals
    first, last = intervals.keys(thread[rows], begin[rows]), intervals.keys(thread[rows], end[rows])
    inside = end[rows] < intervals.end_ns
    key = np.sort(np.concatenate((intervals.key, first, last[inside])), kind="stable")
    key = key[np.concatenate(([True], key[1:] > key[:-1]))]
    of = np.searchsorted(intervals.key, key, side="right") - 1  # the interval that each is a part of
    thread_of = intervals.thread[of]
    begin_of = (
        key - thread_of.astype(np.int64) * (intervals.end_ns - intervals.start_ns + 1) + intervals.start_ns
    )
    is_last = np.concatenate((thread_of[1:] != thread_of[:-1], [True]))
    end_of = np.where(is_last, intervals.end_ns, np.concatenate((begin_of[1:], [0])))
    event_at = np.searchsorted(first, key, side="right") - 1
    has_event = (event_at >= 0) & (key < last[np.maximum(event_at, 0)])
    columns = {
        name: getattr(intervals, name)[of]
        for name in ("state", "wake", "cpu", "stack_id", "slept", "whole", "weak", "is_cut")
    }
    return replace(
        intervals,
        thread=thread_of,
        begin=begin_of,
        end=end_of,
        event=np.where(has_event, rows[np.maximum(event_at, 0)], NONE).astype(np.int32),
        key=key,
        **columns,
    )
