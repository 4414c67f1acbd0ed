# SPDX-License-Identifier: BSD-2-Clause
"""The walk of the critical path: known chains, races, herds, lost records; random ones by a naive walk."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.critical_path.intervals import State, with_events
from analysis.measures.critical_path.occupancy import make_occupancy
from analysis.measures.critical_path.pieces import Kind, Pieces
from analysis.measures.critical_path.stretches import RACE_NS, Spans, spans
from analysis.measures.critical_path.walk import DEPTH_MOST
from tests.analysis.schedules import DEV, Naive, Schedule, answers

A, B, C, D = 1, 2, 3, 4


def listed(pieces: Pieces, root: int = 0) -> list[tuple[int, int, str, int]]:
    """Begin, end, kind and index of the thread of a root's pieces."""
    rows = np.flatnonzero(pieces.root == root).tolist()
    return [
        (int(pieces.begin[i]), int(pieces.end[i]), Kind(int(pieces.kind[i])).name, int(pieces.thread[i]))
        for i in rows
    ]


def chain_of_three() -> Schedule:
    """A waits for B, which waits for C, which waits for a request: [0, 1000)."""
    schedule = Schedule()
    schedule.switch(0, 0, A, cpu=0)
    schedule.switch(100, A, B, cpu=0)  # A ran 100, sleeps till 900
    schedule.switch(150, B, 0, cpu=0)  # B ran 50, sleeps till 800
    schedule.switch(50, 0, C, cpu=1)
    schedule.switch(200, C, 0, state="io_wait", cpu=1)  # C sleeps till 700
    schedule.request(250, 300, 690, sector=8, submitter=C)
    schedule.completion(700, C, sector=8)
    schedule.switch(710, 0, C, cpu=1, prev_role="idle")
    schedule.wake(800, B, C)
    schedule.switch(805, C, B, cpu=1)
    schedule.wake(900, A, B)
    schedule.switch(950, B, A, cpu=1)
    schedule.switch(1000, A, 0, state="ended", cpu=1)
    return schedule


def test_chain_of_three_ends_at_the_request() -> None:
    assert listed(chain_of_three().path([(A, 0, 1000)], 1200)) == [
        (0, 100, "CPU", 0),
        (100, 150, "CPU", 1),
        (150, 200, "CPU", 2),  # B slept: C ran until it slept, too
        (200, 250, "QUEUE", -1),  # C's own request was held back before it was queued
        (250, 300, "QUEUE", -1),
        (300, 690, "DEVICE", -1),
        (690, 700, "COMPLETION", -1),
        (700, 710, "READY", 2),
        (710, 800, "CPU", 2),
        (800, 805, "READY", 1),
        (805, 900, "CPU", 1),
        (900, 950, "READY", 0),
        (950, 1000, "CPU", 0),
    ]


def test_request_of_another_is_walked_to_its_submitter() -> None:
    """A sleeps until a request completes that B queues 100 later, after it ran: write-back by a flusher."""
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.switch(10, A, B)
    schedule.switch(120, B, 0)
    schedule.request(110, 130, 200, sector=64, submitter=B)
    schedule.completion(201, A, sector=64)
    schedule.switch(205, 0, A)
    schedule.switch(300, A, 0)
    assert listed(schedule.path([(A, 0, 300)], 400)) == [
        (0, 10, "CPU", 0),
        (10, 110, "CPU", 1),
        (110, 130, "QUEUE", -1),
        (130, 200, "DEVICE", -1),
        (200, 201, "COMPLETION", -1),
        (201, 205, "READY", 0),
        (205, 300, "CPU", 0),
    ]


def test_child_is_walked_from_its_fork_and_its_parent_waits_for_it() -> None:
    schedule = Schedule()
    schedule.switch(0, 0, A, cpu=0)
    schedule.wake(50, B, A, is_new=1)
    schedule.switch(60, A, B, cpu=0)  # A waits for its child
    schedule.wake(90, C, B, is_new=1)  # which makes another, for which A waits, too
    schedule.switch(100, 0, C, cpu=1)
    schedule.switch(200, B, 0, state="ended", cpu=0)
    schedule.wake(300, A, C)
    schedule.switch(301, C, 0, state="ended", cpu=1)
    schedule.switch(310, 0, A, cpu=0)
    schedule.switch(400, A, 0, cpu=0)
    assert listed(schedule.path([(A, 0, 400)], 500)) == [
        (0, 60, "CPU", 0),
        (60, 90, "CPU", 1),  # before C was made its maker's time counts
        (90, 100, "READY", 2),
        (100, 300, "CPU", 2),
        (300, 310, "READY", 0),
        (310, 400, "CPU", 0),
    ]


def test_herd_has_a_path_of_its_own_for_each() -> None:
    """Three sleep until D wakes them, one after the other on one CPU."""
    schedule = Schedule()
    for thread, cpu in ((A, 1), (B, 2), (C, 3), (D, 0)):
        schedule.switch(0, 0, thread, cpu=cpu)
    for thread, cpu in ((A, 1), (B, 2), (C, 3)):
        schedule.switch(10, thread, 0, cpu=cpu)
        schedule.wake(100, thread, D)
    for i, thread in enumerate((A, B, C)):
        schedule.switch(110 + 20 * i, thread - 1, thread, cpu=1)
    pieces = schedule.path([(A, 0, 170), (B, 0, 170), (C, 0, 170)], 200)
    assert listed(pieces, 0) == [
        (0, 10, "CPU", 0),
        (10, 100, "CPU", 3),
        (100, 110, "READY", 0),
        (110, 130, "CPU", 0),
        (130, 170, "NO_WAKER", 0),
    ]
    ready = (pieces.root == 2) & (pieces.kind == Kind.READY)
    switch = schedule.switch_table
    order = np.lexsort((switch.t_ns, switch.cpu))
    occupants = [int(switch.next[order[row]]) for row in pieces.occupant[ready]]
    assert occupants == [0, A, B]  # C waited while nobody, A and B ran on CPU 1


def test_of_several_that_are_not_logged_the_last_one_had_the_cpu() -> None:
    """Between A's sleep and its next run there is no row: the CPU was idle, then another program had it."""
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.switch(100, A, 0, next_role="idle")
    schedule.wake(300, A, B)
    schedule.switch(350, 0, A, prev_role="other")
    pieces = schedule.path([(A, 0, 400)], 400)
    occupancy = make_occupancy(schedule.switch_table, 0, 400)
    [row] = pieces.occupant[pieces.kind == Kind.READY].tolist()
    assert occupancy.thread[row] == 0
    assert occupancy.role.labels[occupancy.role.codes[row]] == "other"


@pytest.mark.parametrize(
    ("context", "cause", "kind"),
    [
        ("softirq", "timer", "TIMER"),
        ("hardirq", "timer", "TIMER"),
        ("softirq", "net", "NETWORK"),
        ("hardirq", "none", "INTERRUPT"),
        ("nmi", "none", "INTERRUPT"),
        ("softirq", "request", "NO_REQUEST"),
        ("softirq", "other disk", "OTHER_DISK"),
        ("task", "none", "UNLOGGED"),
    ],
)
def test_sleep_without_a_thread_behind_it_is_the_sleepers(context: str, cause: str, kind: str) -> None:
    """The thread that an interrupt hit is not followed."""
    schedule = Schedule()
    schedule.switch(0, 0, A, cpu=0)
    schedule.switch(0, 0, B, cpu=1)
    schedule.switch(10, A, 0, cpu=0)
    dev = 254 << 20 if cause == "other disk" else DEV
    cause = "request" if cause == "other disk" else cause
    schedule.wake(60, A, 0 if context == "task" else B, context=context, cause=cause, dev=dev, sector=5)
    schedule.switch(70, 0, A, cpu=0)
    schedule.switch(90, A, 0, cpu=0)
    assert listed(schedule.path([(A, 0, 90)], 100))[1] == (10, 60, kind, 0)


def test_wake_before_the_sleepers_switch_leaves_it_runnable() -> None:
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.wake(95, A, B)
    schedule.switch(100, A, 0, state="blocked")
    schedule.switch(150, 0, A)
    assert listed(schedule.path([(A, 0, 200)], 200))[1] == (100, 150, "READY", 0)


def test_wake_long_before_the_sleep_is_not_its_end() -> None:
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.wake(95, A, B)
    schedule.switch(97 + RACE_NS, A, 0, state="blocked")
    schedule.switch(150 + RACE_NS, 0, A)
    assert listed(schedule.path([(A, 0, 200 + RACE_NS)], 200 + RACE_NS))[1][2] == "NO_WAKER"


def test_preempted_thread_is_runnable_whatever_wakes_it() -> None:
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.switch(100, A, B, state="preempted")
    schedule.wake(120, A, B)
    schedule.switch(150, B, A, state="preempted")
    assert listed(schedule.path([(A, 0, 200)], 200)) == [
        (0, 100, "CPU", 0),
        (100, 150, "READY", 0),
        (150, 200, "CPU", 0),
    ]


def test_lost_switch_leaves_the_time_between_unknown() -> None:
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.switch(100, 0, A)  # it must have left the CPU before
    schedule.switch(150, A, 0)
    schedule.wake(160, A, B)
    schedule.switch(180, A, 0)  # and come to one
    assert listed(schedule.path([(A, 0, 180)], 200)) == [
        (0, 100, "LOST", 0),
        (100, 150, "CPU", 0),
        (150, 160, "UNLOGGED", 0),  # by B
        (160, 180, "LOST", 0),
    ]


def test_lost_switch_to_a_cpu_leaves_what_others_had_it_for() -> None:
    """A sleeps, is woken, and others have the CPU until 170, that it leaves again at 180."""
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.switch(0, 0, B, cpu=1)
    schedule.switch(100, A, C)
    schedule.wake(130, A, B)
    schedule.switch(170, C, 9)  # a thread in whose context nothing is seen: A comes after it
    schedule.switch(180, A, 0, state="preempted")
    schedule.switch(190, 0, C)
    schedule.switch(195, A, 0)
    assert listed(schedule.path([(A, 0, 195)], 200)) == [
        (0, 100, "CPU", 0),
        (100, 130, "CPU", 1),
        (130, 170, "READY", 0),
        (170, 180, "LOST", 0),
        (180, 190, "READY", 0),
        (190, 195, "LOST", 0),
    ]


def test_time_given_up_is_not_guessed() -> None:
    """Switches tell the state from the end of a given-up time on; a sleep before it has no known end."""
    schedule = Schedule()
    schedule.switch(0, 0, A)
    schedule.switch(100, A, 0)
    schedule.switch(500, A, 0)
    given_up = spans(np.array([200, 250]), np.array([300, 400]), 0, 1000)
    assert listed(schedule.path([(A, 0, 500)], 1000, given_up)) == [
        (0, 100, "CPU", 0),
        (100, 200, "NO_WAKER", 0),
        (200, 400, "UNRECORDED", 0),
        (400, 500, "CPU", 0),
    ]
    assert bool(schedule.intervals(1000, given_up).is_cut[1])


def test_two_threads_that_wake_each_other_end_at_the_deepest_allowed() -> None:
    """Impossible records: both slept all the time, and each woke the other."""
    schedule = Schedule()
    for thread, other in ((A, B), (B, A)):
        schedule.switch(0, 0, thread, cpu=thread)
        schedule.switch(1, thread, 0, cpu=thread)
        schedule.wake(90, thread, other)
        schedule.switch(95, 0, thread, cpu=thread)
    pieces = schedule.path([(A, 0, 100)], 100)
    deep = pieces.kind == Kind.DEEP
    assert int(pieces.ns[deep].sum()) == 89 and set(pieces.depth[deep].tolist()) == {DEPTH_MOST + 1}


def test_unsure_completion_makes_all_behind_it_weak() -> None:
    schedule = chain_of_three()
    assert not schedule.path([(A, 0, 1000)], 1200).weak.any()
    next(row for row in schedule.wakes if row.get("cause") == "request")["sure"] = 0
    pieces = schedule.path([(A, 0, 1000)], 1200)
    assert int(pieces.ns[pieces.weak].sum()) == 700 - 200
    # the wake-up of A in a context that is not known: all that follows from it
    next(row for row in schedule.wakes if row["wakee"] == A)["context"] = "unknown"
    pieces = schedule.path([(A, 0, 1000)], 1200)
    assert int(pieces.ns[pieces.weak].sum()) == 900 - 100


def test_event_of_the_thread_waited_for_counts_before_the_roots_own() -> None:
    schedule = chain_of_three()
    begin, end = np.array([20, 120, 700, 750]), np.array([990, 860, 810, 760])
    intervals = with_events(schedule.intervals(1200), np.array([A, B, C, C]), begin, end)
    assert int((intervals.end - intervals.begin).sum()) == 3 * 1200
    of_c = intervals.thread == 2
    assert set(intervals.event[of_c].tolist()) == {-1, 2}  # the inner one does not count
    assert int((intervals.end - intervals.begin)[intervals.event == 2].sum()) == 110
    at = np.searchsorted(intervals.key, intervals.keys(np.array([2, 2]), np.array([700, 710])))
    assert intervals.state[at].tolist() == [State.RUNNABLE, State.RUNNING]


times = st.integers(0, 40)
threads = st.integers(0, 4)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any rows at all, also impossible ones."""
    schedule = Schedule()
    for _ in range(draw(st.integers(0, 14))):
        state = draw(st.sampled_from(("sleeping", "preempted", "blocked", "ended")))
        schedule.switch(draw(times), draw(threads), draw(threads), state=state, cpu=draw(st.integers(0, 1)))
    for _ in range(draw(st.integers(0, 3))):
        queue = draw(times)
        issue = queue + draw(st.integers(-1, 5))
        complete = issue + draw(st.integers(-1, 9))
        schedule.request(queue, issue, complete, draw(st.integers(1, 2)), draw(threads), draw(st.booleans()))
    for _ in range(draw(st.integers(0, 14))):
        context = draw(st.sampled_from(("task", "task", "softirq", "unknown")))
        cause = draw(st.sampled_from(("none", "request", "timer")))
        dev = 7 << 20 | 3
        schedule.wake(
            draw(times),
            draw(threads),
            draw(threads),
            context=context,
            cause=cause,
            dev=dev,
            sector=draw(st.integers(1, 2)),
        )
    return schedule


@st.composite
def legal_schedules(draw: st.DrawFn) -> Schedule:
    """What a kernel could do: two CPUs, four threads, each sleep ended by a thread that runs or a request."""
    schedule, asleep = Schedule(), [A, B, C, D]
    running: dict[int, int] = {}
    ready: list[int] = []
    sector = 0
    for t in range(0, 60, 2):
        cpu, act = draw(st.integers(0, 1)), draw(st.integers(0, 3))
        if act <= 1 and asleep:
            wakee = asleep.pop(draw(st.integers(0, len(asleep) - 1)))
            ready.append(wakee)
            if act or cpu not in running:
                sector += 1
                age = draw(st.integers(1, 20))
                queue, issue = max(t - age, 0), max(t - age // 2, 0)
                schedule.request(queue, issue, t, sector, draw(threads), draw(st.booleans()))
                schedule.completion(t, wakee, sector)
            else:
                schedule.wake(t, wakee, running[cpu])
        elif ready or cpu in running:
            prev = running.pop(cpu, 0)
            state = draw(st.sampled_from(("sleeping", "preempted", "io_wait")))
            following = ready.pop(0) if ready else 0
            schedule.switch(t, prev, following, state=state, cpu=cpu)
            if prev:
                (ready if state == "preempted" else asleep).append(prev)
            if following:
                running[cpu] = following
    return schedule


def agree(schedule: Schedule, given_up: Spans, end: int = 60) -> None:
    """Each instant of each thread, against the naive walk."""
    naive = Naive(schedule, end, list(zip(given_up.begin.tolist(), given_up.end.tolist(), strict=True)))
    intervals = schedule.intervals(end, given_up)
    assert intervals.numbers.tolist() == sorted(naive.logged)
    roots = [(number, 0, end) for number in sorted(naive.logged)]
    pieces = schedule.path(roots, end, given_up)
    for root, (number, _, _) in enumerate(roots):
        found = answers(pieces, intervals, root)
        assert found == {t: naive.answer(number, t) for t in range(end)}


@given(schedules(), st.lists(st.tuples(times, st.integers(0, 6)), max_size=2))
@settings(max_examples=100)
def test_any_records_at_all_give_the_naive_walk(schedule: Schedule, given_up: list[tuple[int, int]]) -> None:
    begin = np.array([t for t, _ in given_up], dtype=np.int64)
    length = np.array([length for _, length in given_up], dtype=np.int64)
    agree(schedule, spans(begin, begin + length, 0, 60))


@given(legal_schedules())
@settings(max_examples=60)
def test_possible_records_give_the_naive_walk(schedule: Schedule) -> None:
    agree(schedule, spans(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), 0, 60))


@pytest.mark.long
def test_million_switches_take_seconds() -> None:
    """Two threads that wake each other half a million times, watched by a third that waits for both."""
    rounds, schedule = 500_000, Schedule()
    schedule.switch(0, 0, C, cpu=2)
    schedule.switch(1, C, 0, cpu=2)
    for i in range(rounds):
        t = 1000 * i
        this, other = (A, B) if i % 2 else (B, A)
        schedule.switch(t, other if i else 0, this, cpu=0)
        schedule.wake(t + 900, other, this)
        schedule.switch(t + 950, this, 0, cpu=0)
    end = 1000 * rounds
    schedule.wake(end, C, A)
    schedule.switch(end + 10, 0, C, cpu=2)
    begin = time.process_time()
    pieces = schedule.path([(C, 0, end + 20)], end + 20)
    assert time.process_time() - begin < 30
    assert pieces.begin.size > rounds
