# SPDX-License-Identifier: BSD-2-Clause
"""The walk: for each instant of some threads' time, what their progress waited for in the end.

    walk(T, [lo, hi)), for each interval of T within:
      running                  T itself, on a CPU
      runnable                 who ran on that CPU meanwhile
      asleep until a wake-up
        by a thread U          walk(U, the time asleep)
        by a completed request after its completion, on the device, queued; before: walk(its submitter)
          held back (throttle) before it was queued: the request's queue
          of a loop device     on the device: walk(its worker, until the disk below has it), the disk below
        by a timer, unknown    T itself, asleep

Kernel threads serve others. Where U had no work within the window and was given some, what it did before has
no part in the path: that time, too, goes to whoever gave it the work.

A window is never longer than the one it comes from, and each instant of a window goes to one piece or to one
window below: the pieces of a root sum to its time. All windows of one depth are handled at once, as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from analysis.measures.critical_path.below import Below
from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.occupancy import Occupancy
from analysis.measures.critical_path.pieces import (
    Collected,
    Columns,
    Kind,
    Pieces,
)
from analysis.measures.critical_path.stretches import I32, NONE, U8, Mask
from analysis.tables.store import I64

DEPTH_MOST = 60
WORKER, COMPLETED = 2, 6  # stretches of a request's life: a loop device's worker has it; it has completed


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
    is_held: Mask  # what sent it had held it back before it was queued (blk-throttle)
    below: Below


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
    below: I32  # a loop device's request that it is a part of; NONE: none
    weak: Mask

    @property
    def size(self) -> int:
        """Number of windows."""
        return int(self.begin.size)


def _take(columns: Windows, rows: I64) -> Columns:
    return {field.name: getattr(columns, field.name)[rows] for field in fields(columns)}


class Walk:
    """A walk through intervals, wake-ups and requests."""

    def __init__(
        self,
        intervals: Intervals,
        wakes: Wakes,
        requests: Requests,
        occupancy: Occupancy,
        is_handed_on: Mask,
        is_idle: Mask,
        is_workload: Mask,
    ) -> None:
        """is_handed_on: intervals asleep of the thread's own will. is_idle: asleep for want of work.

        is_workload: threads of the workload.
        """
        self.intervals = intervals
        self.wakes = wakes
        self.requests = requests
        self.occupancy = occupancy
        self.is_handed_on = is_handed_on
        self.is_workload = is_workload
        self.is_given_work = is_idle & (intervals.wake >= 0)

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
            below=none,
            weak=np.zeros(size, dtype=np.bool_),
        )
        collected = Collected(before)
        for depth in range(DEPTH_MOST + 1):
            windows = self._step(windows, depth, collected)
            if not windows.size:
                break
        # What is left would be deeper than the walk goes.
        kinds = np.full(windows.size, Kind.DEEP, dtype=np.uint8)
        collected.add(_take(windows, np.arange(windows.size)), kinds, DEPTH_MOST + 1, thread=windows.thread)
        pieces = collected.pieces()
        ns = np.zeros(size, dtype=np.int64)
        np.add.at(ns, pieces.root, pieces.ns)
        assert np.array_equal(ns, end - begin), "the pieces of the path do not sum to its threads' time"
        return pieces

    def _expand(self, windows: Windows, depth: int, collected: Collected) -> tuple[Columns, I32]:
        """The windows by interval: columns of a window for each, and the interval.

        Of a window in a thread that serves others, only what is behind the last time that it had no work; the
        time before is that of whoever gave it work then.
        """
        intervals = self.intervals
        key = intervals.keys(windows.thread, windows.begin)
        first = np.searchsorted(intervals.key, key, side="right") - 1
        key = intervals.keys(windows.thread, windows.end)
        count = np.searchsorted(intervals.key, key, side="left") - first
        collected.check(int(count.sum()))
        of = np.repeat(np.arange(windows.size), count)
        start = np.cumsum(count) - count
        at = (first[of] + np.arange(of.size) - np.repeat(start, count)).astype(np.int32)
        begin = np.maximum(windows.begin[of], intervals.begin[at])
        if depth and of.size:
            given_work = np.maximum.reduceat(np.where(self.is_given_work[at], at, NONE), start)[of]
            kept = at >= given_work
            begin = np.where(at == given_work, windows.begin[of], begin)[kept]
            of, at = of[kept], at[kept]
        parts = _take(windows, of)
        parts["begin"] = begin
        parts["end"] = np.minimum(windows.end[of], intervals.end[at])
        if depth == 0:
            parts["own"] = at
        else:
            is_own = self.is_handed_on[parts["own"]] & self.is_workload[parts["thread"]]
            parts["own"] = np.where(is_own, at, parts["own"])
        return parts, at

    def _step(self, windows: Windows, depth: int, collected: Collected) -> Windows:
        """Divide the windows into pieces and the windows of the next depth."""
        intervals = self.intervals
        parts, at = self._expand(windows, depth, collected)
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
        before, workers = self._life(
            chosen(of_request), request[of_request], at[of_request], depth, collected
        )
        parts_below = (below, before, workers)
        return Windows(**{name: np.concatenate([part[name] for part in parts_below]) for name in below})

    def _ready(self, parts: Columns, at: I32, depth: int, collected: Collected) -> None:
        """Pieces of runnable threads, by who ran on the CPU."""
        of, begin, end, row = self.occupancy.pieces(
            self.intervals.numbers[parts["thread"]], self.intervals.cpu[at], parts["begin"], parts["end"]
        )
        split = {name: values[of] for name, values in parts.items()} | {"begin": begin, "end": end}
        kinds = np.full(of.size, Kind.READY, dtype=np.uint8)
        collected.add(split, kinds, depth, thread=split["thread"], interval=at[of], occupant=row)

    def _life(
        self,
        parts: Columns,
        request: I64,
        at: I32,
        depth: int,
        collected: Collected,
    ) -> tuple[Columns, Columns]:
        """Pieces of sleeps until a request's completion.

        Returns the windows before the requests began, and those of the loop devices' workers.
        """
        requests, below = self.requests, self.requests.below
        begin, end = parts["begin"].astype(np.int64), parts["end"].astype(np.int64)
        edges = [begin]
        for times in (
            requests.queue_ns,
            requests.issue_ns,
            below.worker_until_ns,
            below.begin_ns,
            below.end_ns,
            requests.complete_ns,
        ):
            edges.append(np.minimum(np.maximum(times[request], edges[-1]), end))
        edges.append(end)
        is_told = below.is_told[request] if request.size else np.zeros(0, dtype=np.bool_)
        outer = parts["below"]
        inner = np.where(outer == NONE, request, outer).astype(np.int32)
        handed = np.where(is_told, Kind.HANDED, Kind.DEVICE)

        def between(first: int) -> tuple[I64, Columns]:
            rows = np.flatnonzero(edges[first + 1] > edges[first])
            piece = {name: values[rows] for name, values in parts.items()}
            if WORKER <= first < COMPLETED:
                is_inside = is_told[rows] | (first < COMPLETED - 1)
                piece["below"] = np.where(is_inside, inner[rows], piece["below"])
            return rows, piece | {"begin": edges[first][rows], "end": edges[first + 1][rows]}

        for first, kind in (
            (1, Kind.QUEUE),
            (WORKER + 1, Kind.HANDED),
            (WORKER + 2, Kind.BELOW),
            (WORKER + 3, handed),
            (COMPLETED, Kind.COMPLETION),
        ):
            rows, piece = between(first)
            kinds = np.broadcast_to(kind, request.shape)[rows].astype(np.uint8)
            collected.add(piece, kinds, depth, request=request[rows], waiter=at[rows])
        rows, workers = between(WORKER)
        workers["thread"] = below.worker[request[rows]]
        workers["weak"] = workers["weak"] | below.is_weak[request[rows]]
        submitter = self.requests.submitter[request] if request.size else parts["thread"]
        # A thread that was given work by the end of a request of its own had sent it before it slept. What
        # something held back (blk-throttle) was sent by a worker of that, which knew nothing of it before its
        # time had come: all the time before is the request's.
        is_own = submitter == parts["thread"]
        is_held = self.requests.is_held[request] if request.size else is_own
        asleep = np.minimum(np.maximum(self.intervals.begin[at], begin), edges[1])
        until = np.where(is_held, begin, np.where(is_own, asleep, edges[1]))
        for kind, first_ns, last_ns, mask in (
            (Kind.QUEUE, until, edges[1], is_own | is_held),
            (Kind.UNLOGGED, begin, until, submitter < 0),
        ):
            rows = np.flatnonzero(mask & (last_ns > first_ns))
            piece = {name: values[rows] for name, values in parts.items()}
            piece |= {"begin": first_ns[rows], "end": last_ns[rows]}
            kinds = np.full(rows.size, kind, dtype=np.uint8)
            thread = parts["thread"][rows] if kind == Kind.UNLOGGED else np.full(rows.size, NONE)
            collected.add(
                piece,
                kinds,
                depth,
                thread=thread,
                interval=at[rows],
                request=request[rows],
                waiter=at[rows],
            )
        rows = np.flatnonzero((submitter >= 0) & (until > begin))
        before = {name: values[rows] for name, values in parts.items()}
        before |= {"end": until[rows], "thread": submitter[rows].astype(np.int32)}
        return before, workers
