# SPDX-License-Identifier: BSD-2-Clause
"""Switches and wakes beside programs whose threads are known to wake each other (programs/known_times.c).

The tables are joined here by a naive walk over single rows, which shares nothing with analysis/.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.collectors.known_run import BLOCK_BYTES, MS, READS, ROUNDS, KnownRun
from tests.collectors.known_sleeps import Sleep, Sleeps
from tests.collectors.known_times import Known, KnownThread
from tests.collectors.loop_disk import SECTOR_BYTES
from tests.collectors.recording import needs_btf
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

# The issue's own tolerances.
WITHOUT_WAKER, WITH_REQUEST = 0.001, 0.99


@pytest.fixture(scope="module")
def sleeps(known_run: KnownRun) -> Sleeps:
    return Sleeps(known_run.run)


def whole(known_run: KnownRun) -> list[Known]:
    """Modes of which nothing lies in time that sched gave up, as the machine did too much."""
    found = [known for known in known_run.known.values() if known_run.is_whole(known)]
    assert found, "the machine did too much: nothing was tested"
    return found


def longest(known_run: KnownRun, sleeps: Sleeps, thread: KnownThread) -> Sleep | None:
    """A thread's longest sleep, if its end was seen."""
    slept = sleeps.of(known_run.number(thread))
    assert slept or known_run.unseen()["begins of runs"]
    found = max(slept, key=lambda sleep: sleep.ns, default=None)
    assert found is None or found.wake is not None or known_run.unseen()["wake-ups"]
    return found if found and found.wake else None


def unseen(known_run: KnownRun) -> int:
    """Requests whose end no BPF program saw: here the kernel runs none over threads of process 1."""
    return int(known_run.run.source("block")["notes"].get("end not seen (no latency)", 0))


def test_every_sleep_has_its_waker(known_run: KnownRun, sleeps: Sleeps) -> None:
    numbers = {known_run.number(one) for known in whole(known_run) for one in known.threads.values()}
    slept = [sleep for number in numbers for sleep in sleeps.of(number)]
    assert len(slept) > ROUNDS / 10
    without = [sleep for sleep in slept if sleep.wake is None]
    assert len(without) <= WITHOUT_WAKER * len(slept) + unseen(known_run), without[:10]
    source = known_run.run.source("sched")
    # Older kernels (Linux 6.1) give no task data to a program that interrupts one which has them.
    busy = source["lost"]["wake of a task without task storage"]
    assert sum(source["lost"].values()) == busy <= WITHOUT_WAKER * source["seen"]


def test_sleeps_are_as_many_as_the_kernel_counts(known_run: KnownRun, sleeps: Sleeps) -> None:
    """Those until the thread looked at its own count; a wake before the switch makes it no sleep."""
    threads = [thread for known in whole(known_run) for thread in known.threads.values()]
    missing = Counter[str]()
    for thread in threads:
        number = known_run.number(thread)
        slept = [one for one in sleeps.of(number) if one.begin_ns < thread.end_ns]
        left = [one for one in sleeps.left(number) if one.begin_ns < thread.end_ns]
        off = {"sleeps": len(slept) - thread.sleeps, "left": len(left) - thread.sleeps - thread.preemptions}
        missing.update({what: abs(count) for what, count in off.items()})
    assert max(missing.values()) <= 3 * len(threads) + known_run.unseen().total(), missing


@pytest.mark.parametrize("mode", ["chain2", "chain3"])
def test_chain_is_woken_from_its_far_end(known_run: KnownRun, sleeps: Sleeps, mode: str) -> None:
    """main by second, second by third, and the last by its timer: each sleep as long as its piece."""
    known = known_run.known[mode]
    threads = [known.threads[name] for name in ("main", "second", "third")[: len(known.threads)]]
    for thread, waker in zip(threads, [*threads[1:], None], strict=True):
        found = longest(known_run, sleeps, thread)
        if not found or not found.wake:
            continue
        if waker is None:
            assert (found.wake["cause"], found.wake["context"]) == ("timer", "hardirq")
            [piece] = known.pieces_of(thread.name, "sleep")
            assert found.ns >= MS * 1_000_000
        else:
            assert (found.wake["waker"], found.wake["context"]) == (known_run.number(waker), "task")
            [piece] = known.pieces_of(thread.name, "pipe")
        assert piece.begin_ns <= found.begin_ns <= found.wake["t_ns"] <= found.end_ns <= piece.end_ns


def test_holders_and_child_wake_who_waits_for_them(known_run: KnownRun, sleeps: Sleeps) -> None:
    [child] = [
        line
        for line in known_run.run.lines("thread")
        if line["parent_tgid"] == known_run.known["child"].pid and line["tid"] == line["tgid"]
    ]
    wakers = {mode: known_run.number(known_run.known[mode].threads["second"]) for mode in ("futex", "lock")}
    for mode, waker in {**wakers, "child": child["thread"]}.items():
        found = longest(known_run, sleeps, known_run.known[mode].threads["main"])
        assert found is None or not found.wake or found.wake["waker"] == waker, mode


def test_read_is_woken_by_its_own_request(known_run: KnownRun, sleeps: Sleeps) -> None:
    """The reads are one after the other, so each sleep's request is known by its sector."""
    known = known_run.known["fastread"]
    pieces = known.pieces_of("main", "read")
    slept = [one for one in sleeps.of(known_run.number(known.threads["main"])) if one.state == "io_wait"]
    assert len(slept) > READS / 2, "the disk was faster than the reader: nothing was tested"
    named = 0
    for sleep in slept:
        at = next(number for number, piece in enumerate(pieces) if sleep.begin_ns < piece.end_ns)
        wake = sleep.wake
        if wake is None or wake["cause"] != "request":
            continue
        assert (wake["dev"], wake["sector"]) == (known_run.devs["fast"], at * BLOCK_BYTES // SECTOR_BYTES)
        named += 1
    assert named + unseen(known_run) >= WITH_REQUEST * len(slept)
