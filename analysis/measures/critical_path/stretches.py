# SPDX-License-Identifier: BSD-2-Clause
"""Switches and wake-ups of each thread in the order of time, and the stretches between its switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64
from analysis.tables.switch import Switch
from analysis.tables.wake import Wake

RACE_NS = 1_000_000  # a wake-up is recorded at most so long before the switch of the thread that it wakes
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
NONE = -1
OUT, WAKE, IN, EDGE = range(4)  # kinds of events; EDGE: where a recorded part begins or ends


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


@dataclass(frozen=True)
class Events:
    """Switches and wake-ups by thread and time."""

    thread: I32
    t: I64
    kind: U8  # OUT, WAKE or IN
    row: I32  # of the table switch or wake
    key: I64  # thread and time as one number, ascending


def make_events(
    switch: Switch, wake: Wake, given_up: Spans, start_ns: int, end_ns: int
) -> tuple[Events, I64]:
    """The events in the recorded parts of all threads with switches there, and the threads' numbers."""
    span_ns = end_ns - start_ns + 1
    times, numbers, kinds, rows = [], [], [], []
    for kind, number, t in (
        (OUT, switch.prev, switch.t_ns),
        (WAKE, wake.wakee, wake.t_ns),
        (IN, switch.next, switch.t_ns),
    ):
        is_in = (t >= start_ns) & (t < end_ns) & (number > 0)
        if given_up.begin.size:
            at = np.searchsorted(given_up.begin, t, side="right") - 1
            is_in &= (at < 0) | (t >= given_up.end[np.maximum(at, 0)])
        kept = np.flatnonzero(is_in)
        times.append(t[kept])
        numbers.append(number[kept])
        kinds.append(np.full(kept.size, kind, dtype=np.uint8))
        rows.append(kept.astype(np.int32))
    switched = np.unique(np.concatenate((numbers[OUT], numbers[IN]))).astype(np.int64)
    number, t = np.concatenate(numbers), np.concatenate(times)
    thread = np.minimum(np.searchsorted(switched, number), max(switched.size - 1, 0))
    kept = np.flatnonzero(switched[thread] == number) if switched.size else thread[:0]
    thread, t = thread[kept].astype(np.int32), t[kept]
    key = thread.astype(np.int64) * span_ns + (t - start_ns)
    order = np.argsort(key, kind="stable")
    kind_of, row_of = np.concatenate(kinds)[kept][order], np.concatenate(rows)[kept][order]
    return Events(thread[order], t[order], kind_of, row_of, key[order]), switched


@dataclass(frozen=True)
class Stretches:
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


def parts_of(given_up: Spans, start_ns: int, end_ns: int) -> tuple[I64, I64]:
    """The recorded parts: begins and ends. A given-up span at an edge leaves a part of no length there."""
    return np.concatenate(([start_ns], given_up.end)), np.concatenate((given_up.begin, [end_ns]))


@dataclass(frozen=True)
class Groups:
    """Of each thread the recorded parts in which it was switched, by thread and time."""

    thread: I32
    part: I64
    head: I64  # the stretch from the part's begin on

    @property
    def tail(self) -> I64:
        """The stretch up to the part's end."""
        return self.head + self.head.size


def make_stretches(events: Events, part_begin: I64, part_end: I64) -> tuple[Stretches, Groups]:
    """The stretches inside of recorded parts."""
    at = np.flatnonzero(events.kind != WAKE)
    thread, t, kind, row = events.thread[at], events.t[at], events.kind[at], events.row[at]
    part = np.searchsorted(part_begin, t, side="right") - 1
    size = at.size
    same = np.zeros(size + 1, dtype=np.bool_)
    same[1:size] = (thread[1:] == thread[:-1]) & (part[1:] == part[:-1])
    inner = np.flatnonzero(same[1:size])  # between event i and i + 1
    heads = np.flatnonzero(~same[:size])  # events that a recorded part begins with
    tails = np.flatnonzero(~same[1:])  # and ends with
    edge = np.full(heads.size, EDGE, dtype=np.uint8)
    none = np.full(heads.size, NONE, dtype=np.int32)
    part_key = events.key[at[heads]] - (t[heads] - part_begin[part[heads]])
    before = np.searchsorted(events.key, part_key) - 1
    after = np.concatenate((at[1:], [events.t.size]))[tails] if size else at
    stretches = Stretches(
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
    groups = Groups(thread[heads], part[heads], inner.size + np.arange(heads.size))
    return stretches, groups


def wakes_of(events: Events, stretches: Stretches, part_begin: I64) -> tuple[I32, I64]:
    """The wake-up that ended each stretch's sleep, as row (NONE: not seen), and the time of it."""
    size = events.t.size
    is_wake = events.kind == WAKE
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
    is_real &= (events.t[at] < stretches.end) | (stretches.right == IN)  # none of a later part
    # else the last one since the thread came to the CPU, a moment before it left
    left = np.maximum(stretches.left_at, 0)
    early = preceding[left]
    early_at = np.maximum(early, 0)
    is_early = ~is_real & (stretches.left == OUT) & (early > switch_before[left])
    is_early &= (events.thread[early_at] == stretches.thread) & (early >= 0)
    is_early &= stretches.begin - events.t[early_at] <= RACE_NS
    part = np.searchsorted(part_begin, stretches.begin, side="right") - 1
    is_early &= events.t[early_at] >= part_begin[part]
    row = np.where(is_real, events.row[at], np.where(is_early, events.row[early_at], NONE))
    t = np.where(is_real, events.t[at], np.where(is_early, stretches.begin, stretches.end))
    return row.astype(np.int32), t
