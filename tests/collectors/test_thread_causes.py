# SPDX-License-Identifier: BSD-2-Clause
"""Why threads sleep, by a recording of programs/known_times.c, whose threads wait for known things."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest

from analysis.tables import event, thread_time
from analysis.tables.block import Block
from tests.collectors.known_run import SYNCS, KnownRun
from tests.collectors.known_sleeps import ASLEEP, Sleeps
from tests.collectors.known_times import KnownThread
from tests.collectors.named_rows import named_rows
from tests.collectors.recording import SLOWER, needs_btf
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

# All that a thread of a mode waits for.
CAUSES = {
    ("sleep", "main"): {"sleep"},
    ("hog", "main"): set[str](),
    ("hogs", "main"): set[str](),
    ("hogs", "second"): set[str](),
    ("pingpong", "main"): {"ipc"},
    ("pingpong", "second"): {"ipc"},
    ("futex", "main"): {"ipc"},
    ("futex", "second"): {"sleep"},
    ("child", "main"): {"child"},
    ("chain2", "main"): {"ipc"},
    ("chain2", "second"): {"sleep"},
    ("chain3", "main"): {"ipc"},
    ("chain3", "second"): {"ipc"},
    ("chain3", "third"): {"sleep"},
    ("lock", "main"): {"lock", "ipc"},
    ("lock", "second"): {"fault"},
    ("lock", "third"): {"sleep"},
    ("fsync", "main"): {"commit", "device_write"},
    ("flush", "main"): {"flush", "device_write"},
    ("fastread", "main"): {"device_read"},
    ("read", "main"): {"device_read"},
    ("fault", "main"): {"fault"},
    ("chainread", "main"): {"ipc"},
    ("chainread", "second"): {"device_read"},
    ("reclaim", "main"): {"reclaim"},
    ("write", "main"): {"throttle"},
}
# A wait may turn out short: the journal's thread may be at work for the sync before.
SELDOM = {
    ("fsync", "main"): {"page_io", "handle", "flush", "device_read"},
    # the limit of the disk, that is to make reclaim wait, holds the writer's own requests back, too
    ("reclaim", "main"): {"queue", "device_read", "page_io", "handle", "lock"},
    ("lock", "third"): {"ipc"},
    ("chain3", "third"): {"ipc"},  # until second has begun
}
# The issue's own tolerance; from a wake to the switch, or from the end of an event to the wake; and in all.
OF_COUNTS, MOMENT_NS, MOMENTS_NS = 0.005, 20_000 * SLOWER, 500_000 * SLOWER
MAIN = "main"
COARSE_CLOCK = 6  # CLOCK_MONOTONIC_COARSE: it goes by the kernel's ticks


class Slept:
    """A thread's sleep by cause, as reports have it."""

    def __init__(self, known_run: KnownRun, mode: str, name: str = MAIN) -> None:
        if mode not in known_run.known:
            pytest.skip(
                f"the machine cannot have {mode}: use a kernel with blk-throttle, memcg, strict_limit"
            )
        self.thread: KnownThread = known_run.known[mode].threads[name]
        times = known_run.tables.get(thread_time.TABLE)
        assert times is not None
        rows = np.flatnonzero((times.tid == self.thread.tid) & times.state.is_in(ASLEEP))
        self.ns: Counter[str] = Counter()
        self.count: Counter[str] = Counter()
        for row in rows.tolist():
            cause = times.cause.labels[times.cause.codes[row]]
            self.ns[cause] += int(times.ns[row])
            self.count[cause] += int(times.count[row])


def block_of(known_run: KnownRun, disk: str, op: str, thread: KnownThread) -> tuple[Block, np.ndarray]:
    """The requests of a disk, and which of them are of this kind, within a thread's time."""
    block = known_run.tables.block
    assert block is not None
    mine = (block.dev == known_run.devs[disk]) & block.op.is_(op)
    return block, mine & (block.queue_ns >= thread.begin_ns) & (block.complete_ns <= thread.end_ns)


def events_of(known_run: KnownRun, kind: str, mode: str, **thread: int) -> list[tuple[int, int]]:
    """Begin and end of the events of a kind while main of a mode lived. thread: its tid, or asker_tid."""
    events = known_run.tables.get(event.TABLE)
    assert events is not None
    main = known_run.known[mode].threads[MAIN]
    mine = events.kind.is_(kind) & (events.start_ns >= main.begin_ns) & (events.end_ns <= main.end_ns)
    for column, tid in thread.items():
        mine &= getattr(events, column) == tid
    return list(zip(events.start_ns[mine].tolist(), events.end_ns[mine].tolist(), strict=True))


def sum_ns(spans: list[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans)


@pytest.mark.parametrize(("mode", "name"), CAUSES, ids=lambda word: word)
def test_thread_sleeps_for_what_it_is_known_to(known_run: KnownRun, mode: str, name: str) -> None:
    """And for nothing else, but in what it does before its first and after its last own look at the clock."""
    slept = Slept(known_run, mode, name)
    causes = CAUSES[mode, name]
    others_ns = sum(slept.ns.values()) - sum(
        slept.ns[cause] for cause in causes | SELDOM.get((mode, name), set())
    )
    assert others_ns <= known_run.unseen_ns(slept.thread), slept.ns
    assert {cause for cause in causes if slept.ns[cause] > 0} == causes
    assert slept.ns["unknown"] == slept.ns["no_stack"] == 0


@pytest.mark.parametrize(
    ("mode", "name", "cause", "what"),
    [
        ("sleep", MAIN, "sleep", "sleep"),
        ("futex", "second", "sleep", "sleep"),
        ("futex", MAIN, "ipc", "pipe futex"),
        ("child", MAIN, "child", "child"),
        ("chain2", "second", "sleep", "sleep"),
        ("chain3", "third", "sleep", "sleep"),
        ("lock", MAIN, "lock", "lock"),
        ("read", MAIN, "device_read", "read"),
        ("fastread", MAIN, "device_read", "read"),
        ("chainread", "second", "device_read", "read"),
        ("fault", MAIN, "fault", "fault"),
        ("write", MAIN, "throttle", "write"),
    ],
)
def test_cause_has_the_time_of_the_thread_s_own_clock(
    known_run: KnownRun, mode: str, name: str, cause: str, what: str
) -> None:
    """A piece is a wait, and the thread's way to it and back: on a CPU, or waiting for one."""
    slept = Slept(known_run, mode, name)
    pieces_ns = sum(piece.ns for one in what.split() for piece in known_run.known[mode].pieces_of(name, one))
    own_ns = known_run.ns(slept.thread, "running", "runnable")
    pipes_ns = 0 if cause == "ipc" else slept.ns["ipc"]  # before the piece
    assert (
        pieces_ns - own_ns - pipes_ns
        <= slept.ns[cause]
        <= pieces_ns + pipes_ns + known_run.unseen_ns(slept.thread)
    )


def test_a_lock_is_named_and_its_holder_is_seen(known_run: KnownRun) -> None:
    """The wait as the collector locks has it: as long, for the same lock, held by the thread that sleeps."""
    slept = Slept(known_run, "lock")
    main = known_run.known["lock"].threads[MAIN]
    rows = [row for row in known_run.rows(main) if row["lock_id"]]
    if not rows:
        pytest.skip("the kernel does not say which lock a task waits for: use 6.17 or newer")
    [lock_id] = {int(row["lock_id"]) for row in rows}
    waits = [
        row
        for row in named_rows(known_run.run, "lock_wait")
        if row["lock_id"] == lock_id and row["in_workload"]
    ]
    holders = {row["holder_comm"].decode() for row in waits if row["max_ns"] > slept.ns["lock"] / 2}
    assert holders == {"second"}
    waited_ns = sum(row["sleep_ns"] for row in waits)
    assert abs(waited_ns - slept.ns["lock"]) <= OF_COUNTS * waited_ns + MOMENTS_NS + known_run.stolen_ns


def test_waits_for_flushes_are_the_flushes_of_the_disk(known_run: KnownRun) -> None:
    slept = Slept(known_run, "flush")
    block, mine = block_of(known_run, "fast", "flush", slept.thread)
    assert mine.sum() == slept.count["flush"] == SYNCS
    flushed_ns = int((block.complete_ns - block.queue_ns)[mine].sum())
    # The waiter goes to sleep once its request is sent, and is woken a moment after its end.
    more_ns = slept.ns["flush"] - flushed_ns
    assert abs(more_ns) <= OF_COUNTS * flushed_ns + SYNCS * MOMENT_NS + known_run.stolen_ns


def test_waits_for_commits_are_the_commits_of_the_journal(known_run: KnownRun) -> None:
    """A commit lies in the sync that asked for it, and the sync sleeps from asking for it to its end."""
    slept = Slept(known_run, "fsync")
    # The file system below may commit, too: for the flushes of the loop device's worker.
    commits = events_of(known_run, "jbd2_commit", "fsync", asker_tid=slept.thread.tid)
    assert len(commits) == slept.count["commit"] == SYNCS
    pieces = known_run.known["fsync"].pieces_of(MAIN, "fsync")
    for (begin, end), piece in zip(sorted(commits), pieces, strict=True):
        assert piece.begin_ns < begin < end < piece.end_ns + MOMENT_NS
    slack_ns = OF_COUNTS * sum_ns(commits) + SYNCS * MOMENT_NS + known_run.stolen_ns
    # Until the journal's thread gets a CPU, nothing of the commit has begun.
    assert sum_ns(commits) - slack_ns <= slept.ns["commit"] <= sum(piece.ns for piece in pieces)


def test_reclaim_equals_the_delay_that_the_kernel_counts(known_run: KnownRun) -> None:
    """Events of direct reclaim beside taskstats; and of all sleeps those within these events."""
    slept = Slept(known_run, "reclaim")
    thread = slept.thread
    reclaims = events_of(known_run, "direct_reclaim", "reclaim", tid=thread.tid)
    assert thread.reclaim_ns > 10_000_000, "nothing was reclaimed: nothing was tested"
    slack_ns = OF_COUNTS * thread.reclaim_ns + len(reclaims) * MOMENT_NS + known_run.stolen_ns
    assert abs(sum_ns(reclaims) - thread.reclaim_ns) <= slack_ns
    sleeps = [
        sleep
        for sleep in Sleeps(known_run.run).of(known_run.number(thread))
        if any(begin <= sleep.begin_ns < end for begin, end in reclaims)
    ]
    assert len(sleeps) == slept.count["reclaim"] > 0
    # A sleep ends between the wake and the switch.
    slack_ns = len(sleeps) * MOMENT_NS
    least_ns, most_ns = sum(sleep.asleep_ns for sleep in sleeps), sum(sleep.ns for sleep in sleeps)
    assert least_ns - slack_ns <= slept.ns["reclaim"] <= most_ns + slack_ns


def test_throttling_is_the_pauses_that_the_kernel_plans(known_run: KnownRun) -> None:
    """Each pause ends with a tick of the kernel's clock, up to two after the planned one."""
    slept = Slept(known_run, "write")
    pauses = events_of(known_run, "dirty_throttle", "write", tid=slept.thread.tid)
    # Two sleeps are one, where the run between them was not seen.
    assert 0 <= len(pauses) - slept.count["throttle"] <= known_run.unseen().total()
    assert slept.count["throttle"] > 0
    tick_ns = round(time.clock_getres(COARSE_CLOCK) * 1e9)
    assert {(end - begin) % tick_ns for begin, end in pauses} == {0}
    late_ns = slept.ns["throttle"] - sum_ns(pauses)
    slack_ns = len(pauses) * MOMENT_NS + known_run.stolen_ns
    assert -slack_ns <= late_ns <= 2 * len(pauses) * tick_ns + slack_ns
