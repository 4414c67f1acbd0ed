# SPDX-License-Identifier: BSD-2-Clause
"""The walk: for each instant of some threads' time, what their progress waited for in the end.

    walk(T, [lo, hi)), for each interval of T within:
      running                  T itself, on a CPU
      runnable                 who ran on that CPU meanwhile
      asleep until a wake-up
        by a thread U          walk(U, the time asleep)
        by a completed request after its completion, on the device, queued; before: walk(its submitter)
        by a timer, unknown    T itself, asleep

A window is never longer than the one it comes from, and each instant of a window goes to one piece or to one
window below: the pieces of a root sum to its time. All windows of one depth are handled at once, as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.occupancy import Occupancy
from analysis.measures.critical_path.stretches import I32, NONE, U8, Mask
from analysis.tables.store import I64

Columns = dict[str, npt.NDArray[Any]]
DEPTH_MOST = 60
PIECES_MOST = 30_000_000  # with more the path is given up


class Kind(IntEnum):
    """What a piece of the path is."""

    CPU = 0  # a thread runs
    READY = 1  # a thread waits for a CPU
    DEVICE = 2  # a request is with its device
    QUEUE = 3  # a request waits to be issued: for the scheduler, a tag, a throttle
    COMPLETION = 4  # a request has completed, and has not yet woken anybody
    TIMER = 5  # a thread sleeps until a time of its own
    NETWORK = 6  # a packet
    INTERRUPT = 7  # an interrupt without a known cause
    UNLOGGED = 8  # a thread that is not logged
    NO_WAKER = 9  # a sleep whose wake-up is not in the table
    NO_REQUEST = 10  # a request that the table block lacks
    LOOP = 11  # a sleep that would explain itself
    DEEP = 12  # a chain longer than DEPTH_MOST
    OVER = 13  # a thread that has ended
    LOST = 14  # a switch was lost
    UNRECORDED = 15  # given up for the recorder's budget


class TooLongError(Exception):
    """The path has more than PIECES_MOST pieces."""


@dataclass(frozen=True)
class Wakes:
    """What the walk needs of each row of the table wake. follow: where the walk goes on."""

    waker: I32  # index of the thread that the walk follows; NONE: none
    kind: U8  # Kind of the sleep where the walk follows neither a thread nor a request
    request: I32  # index of the request; NONE: none
    work_id: I32
    weak: Mask  # the waker or the request may be another


@dataclass(frozen=True)
class Requests:
    """What the walk needs of each request."""

    queue_ns: I64
    issue_ns: I64
    complete_ns: I64
    submitter: I32  # index of the thread; NONE: not logged


@dataclass(frozen=True)
class Windows:
    """Spans of threads' time to be walked, all of one depth."""

    root: I32  # which root it belongs to
    thread: I32
    begin: I64
    end: I64
    own: I32  # interval that it explains, see Pieces; NONE: at depth 0
    event: I32  # what a thread on the way worked for; NONE: nothing known
    work_id: I32  # of the wake-up that led here; 0: none
    weak: Mask

    @property
    def size(self) -> int:
        """Number of windows."""
        return int(self.begin.size)


@dataclass(frozen=True)
class Pieces:
    """Rows of the path, by root and time. Threads are indices of Intervals.numbers."""

    root: I32
    begin: I64
    end: I64
    kind: U8
    thread: I32  # that ran, waited or slept; NONE: a request
    interval: I32  # that thread's, of Intervals; NONE: a request
    # the root's interval that it explains; where the root waited of its own will for a thread of the
    # workload, that one's, and so on
    own: I32
    request: I32
    occupant: I32  # READY: row of Occupancy; NONE: not known
    event: I32
    work_id: I32
    depth: U8
    weak: Mask

    @property
    def ns(self) -> I64:
        """Length of each piece."""
        return self.end - self.begin


def _take(columns: Windows, rows: I64) -> Columns:
    return {field.name: getattr(columns, field.name)[rows] for field in fields(columns)}


class _Collected:
    """Pieces as they are found."""

    def __init__(self, before: int) -> None:
        self.parts: list[Columns] = []
        self.size = before  # pieces, those of other roots included

    def add(self, windows: Columns, kind: U8, depth: int, **more: npt.NDArray[Any]) -> None:
        size = windows["begin"].size
        if not size:
            return
        self.size += size
        if self.size > PIECES_MOST:
            raise TooLongError(f"more than {PIECES_MOST:,} pieces")
        none = np.full(size, NONE, dtype=np.int32)
        part: Columns = {name: more.get(name, none) for name in ("thread", "interval", "request", "occupant")}
        part |= {name: windows[name] for name in ("root", "begin", "end", "own", "event", "work_id", "weak")}
        part |= {"kind": kind, "depth": np.full(size, depth, dtype=np.uint8)}
        self.parts.append(part)

    def pieces(self) -> Pieces:
        types: dict[str, Any] = {
            "begin": np.int64,
            "end": np.int64,
            "kind": np.uint8,
            "depth": np.uint8,
            "weak": np.bool_,
        }
        columns: Columns = {}
        for field in fields(Pieces):
            parts = [part[field.name] for part in self.parts] or [np.zeros(0)]
            columns[field.name] = np.concatenate(parts).astype(types.get(field.name, np.int32), copy=False)
        order = np.lexsort((columns["begin"], columns["root"]))
        return Pieces(**{name: values[order] for name, values in columns.items()})


class Walk:
    """A walk through intervals, wake-ups and requests."""

    def __init__(
        self,
        intervals: Intervals,
        wakes: Wakes,
        requests: Requests,
        occupancy: Occupancy,
        is_handed_on: Mask,
        is_workload: Mask,
    ) -> None:
        """is_handed_on: intervals asleep of the thread's own will. is_workload: threads of the workload."""
        self.intervals = intervals
        self.wakes = wakes
        self.requests = requests
        self.occupancy = occupancy
        self.is_handed_on = is_handed_on
        self.is_workload = is_workload

    def pieces(self, thread: I32, begin: I64, end: I64, before: int = 0) -> Pieces:
        """The path of roots: of threads (indices) in [begin, end), within the recording.

        before: pieces that were found of other roots. Raises TooLongError.
        """
        size = thread.size
        none = np.full(size, NONE, dtype=np.int32)
        windows = Windows(
            root=np.arange(size, dtype=np.int32),
            thread=thread,
            begin=begin,
            end=end,
            own=none,
            event=none,
            work_id=np.zeros(size, dtype=np.int32),
            weak=np.zeros(size, dtype=np.bool_),
        )
        collected = _Collected(before)
        for depth in range(DEPTH_MOST + 1):
            windows = self._step(windows, depth, collected)
            if not windows.size:
                break
        # What is left would be deeper than the walk goes.
        kinds = np.full(windows.size, Kind.DEEP, dtype=np.uint8)
        collected.add(_take(windows, np.arange(windows.size)), kinds, DEPTH_MOST + 1, thread=windows.thread)
        pieces = collected.pieces()
        assert np.array_equal(np.bincount(pieces.root, pieces.ns, size).astype(np.int64), end - begin), (
            "the pieces of the path do not sum to the time of its threads"
        )
        return pieces

    def _step(self, windows: Windows, depth: int, collected: _Collected) -> Windows:
        """Divide the windows into pieces and the windows of the next depth."""
        intervals = self.intervals
        first = (
            np.searchsorted(intervals.key, intervals.keys(windows.thread, windows.begin), side="right") - 1
        )
        last = np.searchsorted(intervals.key, intervals.keys(windows.thread, windows.end), side="left") - 1
        count = np.maximum(last - first + 1, 0)
        if collected.size + int(count.sum()) > PIECES_MOST:
            raise TooLongError(f"more than {PIECES_MOST:,} pieces")
        of = np.repeat(np.arange(windows.size), count)
        at = (first[of] + np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)).astype(np.int32)
        parts = _take(windows, of)
        parts["begin"] = np.maximum(windows.begin[of], intervals.begin[at])
        parts["end"] = np.minimum(windows.end[of], intervals.end[at])
        if depth == 0:
            parts["own"] = at
        else:
            is_own = self.is_handed_on[parts["own"]] & self.is_workload[parts["thread"]]
            parts["own"] = np.where(is_own, at, parts["own"])
        # The event nearest to the root counts, but one of the root's own thread only without another.
        event, above = intervals.event[at], parts["event"]
        parts["event"] = np.where((above == NONE) | ((depth == 1) & (event != NONE)), event, above)
        state = intervals.state[at]
        thread = parts["thread"]

        def chosen(mask: Mask) -> Columns:
            return {name: values[mask] for name, values in parts.items()}

        asleep = state == State.ASLEEP
        runnable = state == State.RUNNABLE
        kinds = np.zeros(len(State), dtype=np.uint8)
        kinds[State.RUNNING], kinds[State.OVER] = Kind.CPU, Kind.OVER
        kinds[State.UNKNOWN], kinds[State.UNRECORDED] = Kind.LOST, Kind.UNRECORDED
        plain = ~asleep & ~runnable
        collected.add(chosen(plain), kinds[state[plain]], depth, thread=thread[plain], interval=at[plain])
        self._ready(chosen(runnable), at[runnable], depth, collected)

        wake = np.where(asleep, intervals.wake[at], NONE)
        wake_at = np.maximum(wake, 0)
        is_woken = asleep & (wake >= 0)
        empty = not self.wakes.kind.size
        request = np.where(is_woken, NONE if empty else self.wakes.request[wake_at], NONE)
        waker = np.where(is_woken & (request < 0), NONE if empty else self.wakes.waker[wake_at], NONE)
        is_own = waker == thread
        kind = np.where(is_woken, 0 if empty else self.wakes.kind[wake_at], Kind.NO_WAKER)
        kind = np.where(is_own, Kind.LOOP, kind).astype(np.uint8)
        itself = asleep & (request < 0) & ((waker < 0) | is_own)
        collected.add(chosen(itself), kind[itself], depth, thread=thread[itself], interval=at[itself])
        if not empty:
            weak = self.wakes.weak[wake_at] | intervals.weak[at]
            parts["weak"] = parts["weak"] | (is_woken & weak)
            parts["work_id"] = np.where(is_woken, self.wakes.work_id[wake_at], 0)
        follow = asleep & (waker >= 0) & ~is_own
        below = chosen(follow)
        below["thread"] = waker[follow].astype(np.int32)
        of_request = request >= 0
        before = self._life(chosen(of_request), request[of_request], at[of_request], depth, collected)
        return Windows(**{name: np.concatenate((below[name], before[name])) for name in below})

    def _ready(self, parts: Columns, at: I32, depth: int, collected: _Collected) -> None:
        """Pieces of runnable threads, by who ran on the CPU."""
        of, begin, end, row = self.occupancy.pieces(self.intervals.cpu[at], parts["begin"], parts["end"])
        split = {name: values[of] for name, values in parts.items()} | {"begin": begin, "end": end}
        kinds = np.full(of.size, Kind.READY, dtype=np.uint8)
        collected.add(split, kinds, depth, thread=split["thread"], interval=at[of], occupant=row)

    def _life(
        self,
        parts: Columns,
        request: I64,
        at: I32,
        depth: int,
        collected: _Collected,
    ) -> Columns:
        """Pieces of sleeps until a request's completion; returns the windows before the requests began."""
        begin, end = parts["begin"].astype(np.int64), parts["end"].astype(np.int64)
        edges = [begin]
        for times in (self.requests.queue_ns, self.requests.issue_ns, self.requests.complete_ns):
            edges.append(np.minimum(np.maximum(times[request], edges[-1]), end))
        edges.append(end)
        for kind, first in ((Kind.QUEUE, 1), (Kind.DEVICE, 2), (Kind.COMPLETION, 3)):
            rows = np.flatnonzero(edges[first + 1] > edges[first])
            piece = {name: values[rows] for name, values in parts.items()}
            piece |= {"begin": edges[first][rows], "end": edges[first + 1][rows]}
            collected.add(piece, np.full(rows.size, kind, dtype=np.uint8), depth, request=request[rows])
        rows = np.flatnonzero(edges[1] > edges[0])
        before = {name: values[rows] for name, values in parts.items()}
        before["end"] = edges[1][rows]
        submitter = self.requests.submitter[request[rows]] if request.size else rows.astype(np.int32)
        is_own = submitter == before["thread"]
        known = (submitter >= 0) & ~is_own
        kinds = np.where(is_own, Kind.LOOP, Kind.UNLOGGED).astype(np.uint8)
        unknown = {name: values[~known] for name, values in before.items()}
        collected.add(
            unknown,
            kinds[~known],
            depth,
            thread=before["thread"][~known],
            interval=at[rows][~known],
            request=request[rows][~known],
        )
        before = {name: values[known] for name, values in before.items()}
        before["thread"] = submitter[known].astype(np.int32)
        return before
