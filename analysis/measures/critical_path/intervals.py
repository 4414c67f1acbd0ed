# SPDX-License-Identifier: BSD-2-Clause
"""What each logged thread did at each instant: intervals made of the tables switch and wake.

The intervals of a thread lie without gap or overlap from the start of the recording to its end, whatever the
tables hold. A switch of state "preempted" leaves the thread runnable, any other puts it to sleep until a
wake-up, from which on it is runnable until it comes to a CPU.

- A wake-up may be recorded up to microseconds before the sleeper's own switch: the last one since the thread
  came to the CPU counts if none follows, and the thread was runnable all the time.
- Between two switches to a CPU, or two from it, one was lost: the thread's state is unknown there.
- Time that the recorder gave up for its budget (table sched_window) is not recorded. The first switch after
  it tells the state since its end; so does the first switch of the recording.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64
from analysis.tables.switch import ENDED, PREEMPTED, Switch
from analysis.tables.wake import Wake

RACE_NS = 1_000_000  # a wake-up is recorded at most so long before the switch of the thread that it wakes
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
NONE = -1


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
    event: I32  # row of an event that the thread worked for; NONE: none
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


@dataclass(frozen=True)
class Spans:
    """Times without overlap, ascending, inside of the recording."""

    begin: I64
    end: I64


def spans(begin: I64, end: I64, start_ns: int, end_ns: int) -> Spans:
    """The union of spans, clipped to [start, end)."""
    begin, end = np.clip(begin, start_ns, end_ns), np.clip(end, start_ns, end_ns)
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    is_real = end > begin
    begin, end = begin[is_real], end[is_real]
    if not begin.size:
        return Spans(begin, end)
    latest = np.maximum.accumulate(end)
    is_first = np.concatenate(([True], begin[1:] > latest[:-1]))
    last = np.concatenate((np.flatnonzero(is_first)[1:] - 1, [begin.size - 1]))
    return Spans(begin[is_first], latest[last])


def fits(threads: int, start_ns: int, end_ns: int) -> bool:
    """Whether thread and time fit into one number."""
    return (threads + 1) * (end_ns - start_ns + 2) < 1 << 62


@dataclass(frozen=True)
class _Events:
    """Switches and wake-ups by thread and time."""

    thread: I32
    t: I64
    kind: U8  # _OUT, _WAKE or _IN
    row: I32  # of the table switch or wake
    key: I64  # thread and time as one number, ascending


_OUT, _WAKE, _IN, _EDGE = range(4)


def _events(switch: Switch, wake: Wake, numbers: I64, given_up: Spans, start_ns: int, end_ns: int) -> _Events:
    threads, times, kinds, rows = [], [], [], []
    for kind, number, t in (
        (_OUT, switch.prev, switch.t_ns),
        (_WAKE, wake.wakee, wake.t_ns),
        (_IN, switch.next, switch.t_ns),
    ):
        at = np.searchsorted(given_up.begin, t, side="right") - 1
        is_in = (t >= start_ns) & (t < end_ns) & (number > 0)
        if given_up.begin.size:
            is_in &= (at < 0) | (t >= given_up.end[np.maximum(at, 0)])
        index = np.minimum(np.searchsorted(numbers, number), max(numbers.size - 1, 0))
        if numbers.size:
            is_in &= numbers[index] == number
        kept = np.flatnonzero(is_in)
        threads.append(index[kept].astype(np.int32))
        times.append(t[kept])
        kinds.append(np.full(kept.size, kind, dtype=np.uint8))
        rows.append(kept.astype(np.int32))
    thread, t = np.concatenate(threads), np.concatenate(times)
    key = thread.astype(np.int64) * (end_ns - start_ns + 1) + (t - start_ns)
    order = np.argsort(key, kind="stable")
    kinds_sorted, rows_sorted = np.concatenate(kinds)[order], np.concatenate(rows)[order]
    return _Events(thread[order], t[order], kinds_sorted, rows_sorted, key[order])


@dataclass(frozen=True)
class _Stretches:
    """Time between two neighbouring switches of a thread, or one and the edge of a recorded part."""

    thread: I32
    begin: I64
    end: I64
    left: U8  # kind of the event at the begin
    right: U8
    left_at: I64  # position among the events; of an edge the last one before
    right_at: I64
    left_row: I32  # row of the table switch; NONE: an edge
    right_row: I32


def _parts_of(given_up: Spans, start_ns: int, end_ns: int) -> tuple[I64, I64]:
    """The recorded parts: begins and ends. A given-up span at an edge leaves a part of no length there."""
    return np.concatenate(([start_ns], given_up.end)), np.concatenate((given_up.begin, [end_ns]))


def _stretches(events: _Events, part_begin: I64, part_end: I64) -> tuple[_Stretches, I32, I64, I64]:
    """The stretches inside of recorded parts, and thread, begin and end of the time outside between them."""
    at = np.flatnonzero(events.kind != _WAKE)
    thread, t, kind, row = events.thread[at], events.t[at], events.kind[at], events.row[at]
    part = np.searchsorted(part_begin, t, side="right") - 1
    size = at.size
    same = np.zeros(size + 1, dtype=np.bool_)
    same_thread = np.zeros(size + 1, dtype=np.bool_)
    same_thread[1:size] = thread[1:] == thread[:-1]
    same[1:size] = same_thread[1:size] & (part[1:] == part[:-1])
    inner = np.flatnonzero(same[1:size])  # between event i and i + 1
    heads = np.flatnonzero(~same[:size])  # events that a recorded part begins with
    tails = np.flatnonzero(~same[1:])  # and ends with
    edge = np.full(heads.size, _EDGE, dtype=np.uint8)
    none = np.full(heads.size, NONE, dtype=np.int32)
    part_key = events.key[at[heads]] - (t[heads] - part_begin[part[heads]])
    before = np.searchsorted(events.key, part_key) - 1
    after = np.concatenate((at[1:], [events.t.size]))[tails] if size else at
    stretches = _Stretches(
        thread=np.concatenate((thread[inner], thread[heads], thread[tails])),
        begin=np.concatenate((t[inner], part_begin[part[heads]], t[tails])),
        end=np.concatenate((t[inner + 1] if size else t, t[heads], part_end[part[tails]])),
        left=np.concatenate((kind[inner], edge, kind[tails])),
        right=np.concatenate((kind[inner + 1] if size else kind, kind[heads], edge)),
        left_at=np.concatenate((at[inner], before, at[tails])),
        right_at=np.concatenate((at[inner + 1] if size else at, at[heads], after)),
        left_row=np.concatenate((row[inner], none, row[tails])),
        right_row=np.concatenate((row[inner + 1] if size else row, row[heads], none)),
    )
    # outside: before the first event's part, between parts of neighbouring events, behind the last one's part
    first = heads[~same_thread[heads]]
    last = tails[~same_thread[tails + 1]]
    crossing = np.flatnonzero(same_thread[1:size] & ~same[1:size])
    return (
        stretches,
        np.concatenate((thread[first], thread[crossing], thread[last])),
        np.concatenate((np.full(first.size, part_begin[0]), part_end[part[crossing]], part_end[part[last]])),
        np.concatenate(
            (
                part_begin[part[first]],
                part_begin[part[crossing + 1]] if crossing.size else part[crossing],
                np.full(last.size, part_end[-1]),
            )
        ),
    )


def _wakes_of(events: _Events, stretches: _Stretches, part_begin: I64) -> tuple[I32, I64]:
    """The wake-up that ended each stretch's sleep, as row (NONE: not seen), and the time of it."""
    size = events.t.size
    is_wake = events.kind == _WAKE
    position = np.arange(size)
    following = np.full(size + 2, size, dtype=np.int64)  # first wake-up at or behind a position
    following[:size] = np.minimum.accumulate(np.where(is_wake, position, size)[::-1])[::-1]
    preceding = np.full(size + 1, -1, dtype=np.int64)  # last wake-up before a position
    preceding[1:] = np.maximum.accumulate(np.where(is_wake, position, -1))
    switch_before = np.full(size + 1, -1, dtype=np.int64)
    switch_before[1:] = np.maximum.accumulate(np.where(is_wake, -1, position))

    found = following[stretches.left_at + 1]
    at = np.minimum(found, max(size - 1, 0))
    is_real = (found < stretches.right_at) & (events.thread[at] == stretches.thread)
    is_real &= (events.t[at] < stretches.end) | (stretches.right == _IN)  # none of a later part
    # else the last one since the thread came to the CPU, a moment before it left
    left = np.maximum(stretches.left_at, 0)
    early = preceding[left]
    early_at = np.maximum(early, 0)
    is_early = ~is_real & (stretches.left == _OUT) & (early > switch_before[left])
    is_early &= (events.thread[early_at] == stretches.thread) & (early >= 0)
    is_early &= stretches.begin - events.t[early_at] <= RACE_NS
    part = np.searchsorted(part_begin, stretches.begin, side="right") - 1
    is_early &= events.t[early_at] >= part_begin[part]
    row = np.where(is_real, events.row[at], np.where(is_early, events.row[early_at], NONE))
    t = np.where(is_real, events.t[at], np.where(is_early, stretches.begin, stretches.end))
    return row.astype(np.int32), t


def make_intervals(switch: Switch, wake: Wake, given_up: Spans, start_ns: int, end_ns: int) -> Intervals:
    """The intervals of all threads that the table switch has. given_up: within [start, end)."""
    numbers = np.unique(np.concatenate((switch.prev, switch.next))).astype(np.int64)
    numbers = numbers[numbers > 0]
    events = _events(switch, wake, numbers, given_up, start_ns, end_ns)
    # threads whose switches all lie outside of the recorded parts have no intervals
    seen = np.zeros(numbers.size, dtype=np.bool_)
    seen[events.thread[events.kind != _WAKE]] = True
    if not seen.all():
        kept = np.flatnonzero(seen[events.thread])
        renumbered = (np.cumsum(seen) - 1).astype(np.int32)
        thread, t = renumbered[events.thread[kept]], events.t[kept]
        key = thread.astype(np.int64) * (end_ns - start_ns + 1) + (t - start_ns)
        events = _Events(thread, t, events.kind[kept], events.row[kept], key)
        numbers = numbers[seen]
    part_begin, part_end = _parts_of(given_up, start_ns, end_ns)
    stretches, out_thread, out_begin, out_end = _stretches(events, part_begin, part_end)
    wake_row, wake_t = _wakes_of(events, stretches, part_begin)
    return _assemble(
        switch, stretches, (wake_row, wake_t), (out_thread, out_begin, out_end), numbers, start_ns, end_ns
    )


def _assemble(
    switch: Switch,
    stretches: _Stretches,
    wakes: tuple[I32, I64],
    outside: tuple[I32, I64, I64],
    numbers: I64,
    start_ns: int,
    end_ns: int,
) -> Intervals:
    wake_row, wake_t = wakes
    left, right = stretches.left, stretches.right
    is_ended, is_preempted = switch.state.is_(ENDED), switch.state.is_(PREEMPTED)
    from_cpu = left == _OUT
    ended = from_cpu & is_ended[stretches.left_row] if switch.t_ns.size else from_cpu
    preempted = from_cpu & is_preempted[stretches.left_row] if switch.t_ns.size else from_cpu
    to_cpu = (right == _IN) | (right == _EDGE)
    is_running = ((left == _IN) & (right != _IN)) | ((left == _EDGE) & (right == _OUT))
    is_runnable = preempted & to_cpu
    sleeps = (from_cpu & ~ended & ~preempted & to_cpu) | ((left == _EDGE) & (right == _IN))
    is_over = ended & (right == _EDGE)
    state = np.full(left.size, State.UNKNOWN, dtype=np.uint8)
    for mask, value in ((is_running, State.RUNNING), (is_runnable, State.RUNNABLE), (is_over, State.OVER)):
        state[mask] = value
    state[sleeps] = State.ASLEEP
    # where it runs, or came to run; a thread that waits at an edge is expected where it left
    row = np.where(right == _EDGE, stretches.left_row, stretches.right_row)
    cpu = switch.cpu[row].astype(np.int32) if switch.t_ns.size else row
    stack = np.full(left.size, NONE, dtype=np.int32)
    if switch.t_ns.size:  # taken as it went to sleep, or as it came back
        before = np.where(left == _OUT, switch.stack_id[stretches.left_row], NONE)
        after = np.where(right == _IN, switch.next_stack_id[stretches.right_row], NONE)
        stack = np.where(sleeps, np.where(before >= 0, before, after), NONE).astype(np.int32)
    # a sleep is two intervals: asleep until the wake-up, then runnable
    middle = np.where(sleeps, wake_t, stretches.end)
    awake = np.flatnonzero(sleeps)
    size, extra = left.size, awake.size + outside[0].size
    none = np.full(extra, NONE, dtype=np.int32)
    thread = np.concatenate((stretches.thread, stretches.thread[awake], outside[0]))
    begin = np.concatenate((stretches.begin, middle[awake], outside[1]))
    end = np.concatenate((middle, stretches.end[awake], outside[2]))
    states = np.concatenate(
        (
            state,
            np.full(awake.size, State.RUNNABLE, dtype=np.uint8),
            np.full(outside[0].size, State.UNRECORDED, dtype=np.uint8),
        )
    )
    is_asleep = state == State.ASLEEP
    has_cpu = (state == State.RUNNING) | (state == State.RUNNABLE)
    wake_of = np.concatenate((np.where(is_asleep, wake_row, NONE), none)).astype(np.int32)
    cpus = np.concatenate((np.where(has_cpu, cpu, NONE), cpu[awake], none[awake.size :])).astype(np.int32)
    stacks = np.concatenate((stack, none)).astype(np.int32)
    is_cut = np.concatenate(((left == _EDGE) | (right == _EDGE), np.zeros(extra, dtype=np.bool_)))
    assert begin.size == size + extra
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
        state=states[order],
        wake=wake_of[order],
        cpu=cpus[order],
        stack_id=stacks[order],
        event=np.full(order.size, NONE, dtype=np.int32),
        is_cut=is_cut[order],
        key=key[order],
    )


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
    key = np.unique(np.concatenate((intervals.key, first, last[inside])))
    of = np.searchsorted(intervals.key, key, side="right") - 1  # the interval that each is a part of
    thread_of = intervals.thread[of]
    begin_of = (
        key - thread_of.astype(np.int64) * (intervals.end_ns - intervals.start_ns + 1) + intervals.start_ns
    )
    is_last = np.concatenate((thread_of[1:] != thread_of[:-1], [True]))
    end_of = np.where(is_last, intervals.end_ns, np.concatenate((begin_of[1:], [0])))
    event_at = np.searchsorted(first, key, side="right") - 1
    has_event = (event_at >= 0) & (key < last[np.maximum(event_at, 0)])
    return replace(
        intervals,
        thread=thread_of,
        begin=begin_of,
        end=end_of,
        state=intervals.state[of],
        wake=intervals.wake[of],
        cpu=intervals.cpu[of],
        stack_id=intervals.stack_id[of],
        is_cut=intervals.is_cut[of],
        event=np.where(has_event, rows[np.maximum(event_at, 0)], NONE).astype(np.int32),
        key=key,
    )
