# SPDX-License-Identifier: BSD-2-Clause
"""Schedules for tests of the critical path: switches, wake-ups and requests by hand, and a naive walk.

The naive walk knows nothing of windows: it asks for one instant after the other what each thread did then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.measures.critical_path.below import Below
from analysis.measures.critical_path.causes import is_idle
from analysis.measures.critical_path.intervals import Intervals, make_intervals
from analysis.measures.critical_path.occupancy import make_occupancy
from analysis.measures.critical_path.pieces import Kind, Pieces
from analysis.measures.critical_path.requests import requests_of
from analysis.measures.critical_path.stretches import NONE, Spans
from analysis.measures.critical_path.wakes import make_wakes
from analysis.measures.critical_path.walk import DEPTH_MOST, Requests, Walk
from analysis.tables.block import Block
from analysis.tables.store import I64, Categorical
from analysis.tables.switch import Switch
from analysis.tables.wake import Wake

STATES = ("preempted", "sleeping", "blocked", "io_wait", "ended", "other")
ROLES = ("unknown", "workload", "kernel", "filesystem", "disk", "recorder", "other", "idle")
CONTEXTS = ("unknown", "task", "softirq", "hardirq", "nmi")
CAUSES = ("none", "request", "work", "timer", "net")
DEV = 7 << 20 | 3
KERNEL = frozenset({3, 4, 5})  # numbers of threads that serve others
NO_SPANS = Spans(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def _words(words: Sequence[str], labels: tuple[str, ...]) -> Categorical:
    return Categorical(np.array([labels.index(word) for word in words], dtype=np.int8), labels)


def nothing_below(issue_ns: I64) -> Below:
    """Nothing is known of any request."""
    no = np.zeros(issue_ns.size, dtype=np.bool_)
    return Below(no, np.full(issue_ns.size, NONE, dtype=np.int32), no, issue_ns, issue_ns, issue_ns)


@dataclass
class Schedule:
    """Rows of the tables. Threads are numbers from 1 on, 0 is a thread that is not logged."""

    switches: list[dict[str, Any]] = field(default_factory=list)
    wakes: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    def switch(self, t: int, prev: int, then: int, state: str = "sleeping", **more: Any) -> None:
        """At a time, a CPU goes from one thread to another."""
        self.switches.append({"t_ns": t, "prev": prev, "next": then, "state": state, **more})

    def wake(self, t: int, wakee: int, waker: int, **more: Any) -> None:
        """A thread wakes another."""
        self.wakes.append({"t_ns": t, "wakee": wakee, "waker": waker, **more})

    def request(
        self,
        queue: int,
        issue: int,
        complete: int,
        sector: int,
        submitter: int = 0,
        is_held: bool = False,
    ) -> None:
        """A request, by a thread (its tid is its number). is_held: by a throttle before."""
        row = {"queue": queue, "issue": issue, "complete": complete, "sector": sector, "pid": submitter}
        self.requests.append(row | {"is_held": is_held})

    def completion(self, t: int, wakee: int, sector: int, **more: Any) -> None:
        """A completion wakes a thread."""
        self.wake(t, wakee, 0, context="softirq", cause="request", dev=DEV, sector=sector, **more)

    def _column(self, rows: list[dict[str, Any]], name: str, default: int = 0) -> Any:
        return np.array([row.get(name, default) for row in rows], dtype=np.int64)

    @property
    def switch_table(self) -> Switch:
        """The table switch."""
        rows = self.switches
        return Switch(
            t_ns=self._column(rows, "t_ns"),
            prev=self._column(rows, "prev"),
            next=self._column(rows, "next"),
            stack_id=self._column(rows, "stack_id", -1),
            cpu=self._column(rows, "cpu"),
            state=_words([row["state"] for row in rows], STATES),
            prev_role=_words([row.get("prev_role", "workload") for row in rows], ROLES),
            next_role=_words([row.get("next_role", "workload") for row in rows], ROLES),
        )

    @property
    def wake_table(self) -> Wake:
        """The table wake."""
        rows = self.wakes
        return Wake(
            t_ns=self._column(rows, "t_ns"),
            wakee=self._column(rows, "wakee"),
            waker=self._column(rows, "waker"),
            waker_role=_words([row.get("waker_role", "workload") for row in rows], ROLES),
            context=_words([row.get("context", "task") for row in rows], CONTEXTS),
            cause=_words([row.get("cause", "none") for row in rows], CAUSES),
            dev=self._column(rows, "dev"),
            sector=self._column(rows, "sector"),
            work_id=self._column(rows, "work_id"),
            sure=self._column(rows, "sure", 1) != 0,
            is_new=self._column(rows, "is_new") != 0,
        )

    @property
    def block_table(self) -> Block:
        """The table block."""
        rows = self.requests
        size = len(rows)
        same = Categorical(np.zeros(size, dtype=np.int8), ("write",))
        queue, issue, complete = (self._column(rows, name) for name in ("queue", "issue", "complete"))
        return Block(
            queue_ns=queue,
            issue_ns=issue,
            complete_ns=complete,
            dev=np.full(size, DEV),
            sector=self._column(rows, "sector"),
            bytes=np.full(size, 4096),
            op=same,
            class_=Categorical(np.zeros(size, dtype=np.int8), ("data",)),
            comm=Categorical(np.zeros(size, dtype=np.int8), ("worker",)),
            in_workload=np.ones(size, dtype=np.bool_),
            failed=np.zeros(size, dtype=np.bool_),
            timed=(queue <= issue) & (issue <= complete),
            lasting=(queue <= issue) & (issue <= complete),
            read={"pid": self._column(rows, "pid")}.get,
        )

    def intervals(self, end: int, given_up: Spans = NO_SPANS) -> Intervals:
        """Of the time [0, end)."""
        return make_intervals(self.switch_table, self.wake_table, given_up, 0, end)

    def path(self, roots: Sequence[tuple[int, int, int]], end: int, given_up: Spans = NO_SPANS) -> Pieces:
        """The path of roots: thread number, begin, end. The recording is [0, end)."""
        intervals = self.intervals(end, given_up)
        block = self.block_table
        walk = Walk(
            intervals,
            make_wakes(self.wake_table, requests_of(self.wake_table, block), np.array([DEV]), intervals),
            Requests(
                block.queue_ns,
                block.issue_ns,
                block.complete_ns,
                intervals.index(self._column(self.requests, "pid")),
                self._column(self.requests, "is_held") != 0,
                nothing_below(block.issue_ns),
            ),
            make_occupancy(self.switch_table, 0, end),
            np.zeros(intervals.begin.size, dtype=np.bool_),
            is_idle(intervals, np.isin(intervals.numbers, list(KERNEL)), STATES),
            np.ones(intervals.numbers.size, dtype=np.bool_),
        )
        thread = intervals.index(np.array([root[0] for root in roots], dtype=np.int64))
        begin, until = (np.array([root[i] for root in roots], dtype=np.int64) for i in (1, 2))
        return walk.pieces(thread, begin, until)


@dataclass(frozen=True)
class Answer:
    """What one instant of a root's time went to."""

    kind: Kind
    thread: int = 0  # number; 0: none
    request: int = -1
    depth: int = 0


class Naive:
    """The path by definition: for one instant, from thread to thread."""

    def __init__(self, schedule: Schedule, end: int, given_up: Sequence[tuple[int, int]] = ()) -> None:
        self.schedule = schedule
        self.end = end
        self.given_up = given_up
        self.events: dict[int, list[tuple[int, int, dict[str, Any]]]] = {}
        for kind, rows, who in (
            (0, schedule.switches, "prev"),
            (1, schedule.wakes, "wakee"),
            (2, schedule.switches, "next"),
        ):
            for row in rows:
                if row[who] and 0 <= row["t_ns"] < end and not self._given_up(row["t_ns"]):
                    self.events.setdefault(row[who], []).append((row["t_ns"], kind, row))
        for events in self.events.values():
            events.sort(key=lambda event: event[:2])
        self.logged = {n for n, events in self.events.items() if any(kind != 1 for _, kind, _ in events)}

    def _given_up(self, t: int) -> bool:
        return any(begin <= t < end for begin, end in self.given_up)

    def _part(self, t: int) -> tuple[int, int]:
        """The recorded part that holds a time."""
        begin = max([0, *(end for _, end in self.given_up if end <= t)])
        return begin, min([self.end, *(start for start, _ in self.given_up if start > t)])

    def _parts(self) -> list[tuple[int, int]]:
        """All recorded parts."""
        edges = [0, *(edge for span in self.given_up for edge in span), self.end]
        return list(zip(edges[::2], edges[1::2], strict=True))

    def _head(self, thread: int, part: tuple[int, int]) -> tuple[bool, dict[str, Any] | None]:
        """Whether a thread is asleep at the begin of a part in which it was switched, and the wake-up."""
        events = [event for event in self.events[thread] if part[0] <= event[0] < part[1]]
        first = next(i for i, event in enumerate(events) if event[1] != 1)
        is_asleep = events[first][1] == 2
        return is_asleep, events[0][2] if is_asleep and first else None

    def _silent(self, thread: int, t: int) -> tuple[str, dict[str, Any] | None]:
        """The state in a part without a switch of the thread: asleep if it is so before and after."""
        parts = [
            part
            for part in self._parts()
            if any(kind != 1 and part[0] <= at < part[1] for at, kind, _ in self.events[thread])
        ]
        before = [part for part in parts if part[1] <= t]
        after = [part for part in parts if part[0] > t]
        wake = None
        if before and self._tail(thread, before[-1]) != "asleep":
            return "unknown", None
        if after:
            is_asleep, wake = self._head(thread, after[0])
            if not is_asleep:
                return "unknown", None
        return "asleep", wake

    def _tail(self, thread: int, part: tuple[int, int]) -> str:
        """The state at the end of a part, without a look at later ones."""
        events = [event for event in self.events[thread] if part[0] <= event[0] < part[1]]
        at = max(i for i, event in enumerate(events) if event[1] != 1)
        _, kind, row = events[at]
        if kind == 2 or row["state"] in ("preempted", "ended") or events[at + 1 :]:
            return "awake"
        is_early = at > 0 and events[at - 1][1] == 1 and events[at][0] - events[at - 1][0] <= 1_000_000
        return "awake" if is_early else "asleep"

    def _head_wake(self, thread: int, part: tuple[int, int]) -> dict[str, Any] | None:
        """The wake-up that ends a sleep at the begin of the next part with a switch; None: none does."""
        for later in self._parts():
            if later[0] >= part[1] and any(
                kind != 1 and later[0] <= at < later[1] for at, kind, _ in self.events[thread]
            ):
                return self._head(thread, later)[1]
        return None

    def state(self, thread: int, t: int) -> tuple[str, dict[str, Any] | None]:
        """running, runnable, asleep, over, unknown or unrecorded; and of a sleep the wake-up."""
        first, last = self._part(t)
        events = [event for event in self.events[thread] if first <= event[0] < last]
        if self._given_up(t):
            return "unrecorded", None
        if not any(kind != 1 for _, kind, _ in events):
            return self._silent(thread, t)
        at = [i for i, event in enumerate(events) if event[1] != 1]
        before = [i for i in at if events[i][0] <= t]
        after = [i for i in at if events[i][0] > t]
        left, right = (before[-1] if before else None), (after[0] if after else None)
        left_kind = None if left is None else events[left][1]
        right_kind = None if right is None else events[right][1]
        left_state = "" if left is None or left_kind == 2 else events[left][2]["state"]
        if (left_kind == 2 and right_kind != 2) or (left is None and right_kind == 0):
            return "running", None
        if left_kind == 2:
            return "unknown", None
        if right_kind == 0:
            assert left is not None and right is not None
            return self._lost(events[left : right + 1], events[:left], t)
        if left_state == "ended":
            return ("over", None) if right is None else ("unknown", None)
        if left_state == "preempted":
            return "runnable", None
        wakes = events[(-1 if left is None else left) + 1 : right]
        if wakes:
            return ("asleep", wakes[0][2]) if t < wakes[0][0] else ("runnable", None)
        if left is not None:
            early = left - 1
            if early >= 0 and events[early][1] == 1 and events[left][0] - events[early][0] <= 1_000_000:
                return "runnable", None
        return "asleep", self._head_wake(thread, (first, last)) if right is None else None

    def _lost(
        self, events: list[tuple[int, int, dict[str, Any]]], before: list[Any], t: int
    ) -> tuple[str, dict[str, Any] | None]:
        """Between two switches from a CPU: what is known until the CPU's last switch before the second."""
        (left_ns, _, left), *wakes, (_, _, right) = events
        wake_ns, wake = left_ns, None
        if left["state"] == "ended":
            return "unknown", None
        if left["state"] != "preempted":
            is_early = before and before[-1][1] == 1 and left_ns - before[-1][0] <= 1_000_000
            if not wakes and not is_early:
                return "unknown", None
            if wakes:
                wake_ns, _, wake = wakes[0]
        if t < wake_ns:
            return "asleep", wake
        rows = sorted(
            (row["t_ns"], i) for i, row in enumerate(self.schedule.switches) if row["cpu"] == right["cpu"]
        )
        at = next(n for n, (_, i) in enumerate(rows) if self.schedule.switches[i] is right)
        came_ns = rows[at - 1][0] if at else 0
        return ("runnable" if t < came_ns else "unknown"), None

    def request(self, wake: dict[str, Any]) -> int:
        """The request that completed last at its sector; -1: none."""
        completed = [
            (row["complete"], i)
            for i, row in enumerate(self.schedule.requests)
            if row["queue"] <= row["issue"] <= row["complete"] <= wake["t_ns"]
            and row["sector"] == wake["sector"]
            and wake["t_ns"] - row["complete"] <= 10_000_000
        ]
        return max(completed, default=(0, -1))[1]

    def _is_given_work(self, thread: int, t: int) -> bool:
        """Whether a thread sleeps for want of work at a time, until something gives it some."""
        state, wake = self.state(thread, t)
        if thread not in KERNEL or state != "asleep" or wake is None:
            return False
        first, last = self._part(t)
        events = [e for e in self.events[thread] if e[1] == 0 and e[0] <= t]
        if any(e[1] != 1 and first <= e[0] < last for e in self.events[thread]):
            events = [e for e in events if e[0] >= first]
        return not events or events[-1][2]["state"] == "sleeping"

    def answer(self, thread: int, t: int, depth: int = 0, until: int | None = None) -> Answer:
        """What a thread waited for at a time, in a window that ends at `until`."""
        until = self.end if until is None else until
        if depth > DEPTH_MOST:
            return Answer(Kind.DEEP, thread, depth=depth)
        # the last time in the window that it had no work
        idle = [u for u in range(t, until) if depth and self._is_given_work(thread, u)]
        at = idle[-1] if idle else t
        state, wake = self.state(thread, at)
        while at + 1 < until and state == "asleep" and self.state(thread, at + 1) == (state, wake):
            at += 1
        until = at + 1
        kinds = {
            "running": Kind.CPU,
            "runnable": Kind.READY,
            "over": Kind.OVER,
            "unknown": Kind.LOST,
            "unrecorded": Kind.UNRECORDED,
        }
        if state != "asleep":
            return Answer(kinds[state], thread, depth=depth)
        if wake is None:
            return Answer(Kind.NO_WAKER, thread, depth=depth)
        cause, context = wake.get("cause", "none"), wake.get("context", "task")
        found = self.request(wake) if cause == "request" else -1
        if found >= 0:
            row = self.schedule.requests[found]
            if t < row["queue"]:
                if row["is_held"]:
                    return Answer(Kind.QUEUE, 0, found, depth)
                if row["pid"] == thread:
                    asleep = at
                    while asleep > 0 and self.state(thread, asleep - 1) == (state, wake):
                        asleep -= 1
                    if t >= asleep:
                        return Answer(Kind.QUEUE, 0, found, depth)
                    until = min(until, asleep)
                if row["pid"] not in self.logged:
                    return Answer(Kind.UNLOGGED, thread, found, depth)
                return self.answer(row["pid"], t, depth + 1, min(until, row["queue"]))
            if t < row["issue"]:
                return Answer(Kind.QUEUE, 0, found, depth)
            return Answer(Kind.DEVICE if t < row["complete"] else Kind.COMPLETION, 0, found, depth)
        if context in ("task", "unknown"):
            if wake["waker"] not in self.logged:
                return Answer(Kind.UNLOGGED, thread, depth=depth)
            if wake["waker"] == thread:
                return Answer(Kind.LOOP, thread, depth=depth)
            return self.answer(wake["waker"], t, depth + 1, until)
        disk = Kind.NO_REQUEST if wake.get("dev", DEV) == DEV else Kind.OTHER_DISK
        irq = {"timer": Kind.TIMER, "net": Kind.NETWORK, "request": disk}
        return Answer(irq.get(cause, Kind.INTERRUPT), thread, depth=depth)


def answers(pieces: Pieces, intervals: Intervals, root: int = 0) -> dict[int, Answer]:
    """The walk's answer for each instant of a root's time."""
    found: dict[int, Answer] = {}
    for i in np.flatnonzero(pieces.root == root).tolist():
        thread, request = int(pieces.thread[i]), int(pieces.request[i])
        answer = Answer(
            Kind(int(pieces.kind[i])),
            int(intervals.numbers[thread]) if thread >= 0 else 0,
            request,
            int(pieces.depth[i]),
        )
        for t in range(int(pieces.begin[i]), int(pieces.end[i])):
            assert t not in found
            found[t] = answer
    return found
