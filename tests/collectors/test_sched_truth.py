# SPDX-License-Identifier: BSD-2-Clause
"""Switches and wakes beside programs whose threads are known to wake each other (programs/known_times.c).

The tables are joined here by a naive walk over single rows, which shares nothing with analysis/.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.collectors.known_times import Known, KnownThread, run_known
from tests.collectors.loop_disk import MIB, SECTOR_BYTES, LoopDisk, loop_disk
from tests.collectors.named_rows import named_rows
from tests.collectors.recording import (
    SLOWER,
    Recording,
    cgroup,
    compile_program,
    needs_btf,
    recording,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

MS = 50 * (4 if SLOWER > 1 else 1)
ROUNDS = 2000
READS = 500
BLOCK_BYTES = 4096
# The issue's own tolerances.
WITHOUT_WAKER, WITH_REQUEST = 0.001, 0.99


@dataclass(frozen=True)
class Sleep:
    """A thread off its CPU: from its switch out to its switch in, and the wake in between."""

    begin_ns: int
    end_ns: int
    state: str
    wake: dict[str, Any] | None

    @property
    def ns(self) -> int:
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Recorded:
    """One recording in which the program ran in every mode."""

    run: Recording
    known: dict[str, Known]
    switches: list[dict[str, Any]]
    wakes: list[dict[str, Any]]
    disk: LoopDisk
    dev: int

    def number(self, thread: KnownThread) -> int:
        [line] = [line for line in self.run.lines("thread") if line["tid"] == thread.tid]
        return int(line["thread"])

    def is_whole(self, known: Known) -> bool:
        """Whether nothing of it lies in time that the recorder gave up, as the machine did too much."""
        begin_ns = min(thread.begin_ns for thread in known.threads.values())
        end_ns = max(thread.end_ns for thread in known.threads.values())
        return not any(
            row["start_ns"] < end_ns and begin_ns < row["end_ns"] for row in self.run.lines("sched_window")
        )

    @property
    def unseen(self) -> int:
        """Requests whose end no BPF program saw: here the kernel runs none over threads of process 1."""
        return int(self.run.source("block")["notes"].get("end not seen (no latency)", 0))

    def whole(self, mode: str) -> Known:
        known = self.known[mode]
        if not self.is_whole(known):
            pytest.skip(
                "other programs switch too often for the budget of sched: run it on a quieter machine"
            )
        return known

    def left(self, number: int) -> list[Sleep]:
        """Return a thread's times off a CPU, and for each the last wake between its last two switches in."""
        wakes = [wake for wake in self.wakes if wake["wakee"] == number]
        found, came_ns, left = [], 0, None
        for switch in self.switches:
            if switch["next"] == number:
                if left is not None:
                    between = [wake for wake in wakes if came_ns <= wake["t_ns"] <= switch["t_ns"]]
                    wake = between[-1] if between else None
                    found.append(Sleep(left["t_ns"], switch["t_ns"], left["state"], wake))
                came_ns, left = switch["t_ns"], None
            if switch["prev"] == number:
                left = switch
        return found

    def sleeps(self, number: int) -> list[Sleep]:
        """Return those in which it slept."""
        return [one for one in self.left(number) if one.state in ("sleeping", "blocked", "io_wait")]


def in_time(run: Recording, table: str) -> list[dict[str, Any]]:
    return sorted(named_rows(run, table), key=lambda row: int(row["t_ns"]))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("sched")
    program = compile_program("known_times", folder)
    known: dict[str, Known] = {}
    with ExitStack() as stack:
        group = stack.enter_context(cgroup())
        disk = stack.enter_context(loop_disk(folder / "image", READS * BLOCK_BYTES + MIB))
        subprocess.run(["dd", "if=/dev/zero", f"of={disk.path}", "bs=1M", "conv=fsync"], check=False)
        major, minor = map(int, (disk.sysfs / "dev").read_text().split(":"))
        collect = "block,threads,sched"
        words = ("--collect", collect, "--disk", disk.name, "--cgroup", str(group))
        run = stack.enter_context(recording(folder / "out", *words))
        for mode in ("chain2", "chain3", "futex", "child"):
            known[mode] = run_known(program, group, mode, MS)
        known["pingpong"] = run_known(program, group, "pingpong", ROUNDS)
        known["read"] = run_known(program, group, "read", READS, disk.path)
        run.stop()
        yield Recorded(run, known, in_time(run, "switch"), in_time(run, "wake"), disk, major << 20 | minor)


def test_every_sleep_has_its_waker(recorded: Recorded) -> None:
    whole = [known for known in recorded.known.values() if recorded.is_whole(known)]
    numbers = {recorded.number(one) for known in whole for one in known.threads.values()}
    sleeps = [sleep for number in numbers for sleep in recorded.sleeps(number)]
    assert len(sleeps) > ROUNDS / 10
    without = [sleep for sleep in sleeps if sleep.wake is None]
    assert len(without) <= WITHOUT_WAKER * len(sleeps) + recorded.unseen, without[:10]
    assert sum(recorded.run.source("sched")["lost"].values()) == 0


def test_sleeps_are_as_many_as_the_kernel_counts(recorded: Recorded) -> None:
    """Those until the thread looked at its own count; a wake before the switch makes it no sleep."""
    whole = [known for known in recorded.known.values() if recorded.is_whole(known)]
    assert whole, "the machine did too much: nothing was tested"
    for known in whole:
        for thread in known.threads.values():
            number = recorded.number(thread)
            slept = [one for one in recorded.sleeps(number) if one.begin_ns < thread.end_ns]
            left = [one for one in recorded.left(number) if one.begin_ns < thread.end_ns]
            assert abs(len(slept) - thread.sleeps) <= 3
            assert abs(len(left) - thread.sleeps - thread.preemptions) <= 3


@pytest.mark.parametrize("mode", ["chain2", "chain3"])
def test_chain_is_woken_from_its_far_end(recorded: Recorded, mode: str) -> None:
    """main by second, second by third, and the last by its timer: each sleep as long as its piece."""
    known = recorded.whole(mode)
    order = ("main", "second", "third")[: len(known.threads)]
    numbers = [recorded.number(known.threads[name]) for name in order]
    for name, number, waker in zip(order, numbers, [*numbers[1:], None], strict=True):
        longest = max(recorded.sleeps(number), key=lambda sleep: sleep.ns)
        assert longest.wake is not None
        if waker is None:
            assert (longest.wake["cause"], longest.wake["context"]) == ("timer", "hardirq")
            [piece] = known.pieces_of(name, "sleep")
            assert longest.ns >= MS * 1_000_000
        else:
            assert (longest.wake["waker"], longest.wake["context"]) == (waker, "task")
            [piece] = known.pieces_of(name, "pipe")
        assert piece.begin_ns <= longest.begin_ns <= longest.wake["t_ns"] <= longest.end_ns <= piece.end_ns


def test_mutex_and_child_wake_who_waits_for_them(recorded: Recorded) -> None:
    futex = recorded.whole("futex").threads
    longest = max(recorded.sleeps(recorded.number(futex["main"])), key=lambda sleep: sleep.ns)
    assert longest.wake is not None
    assert longest.wake["waker"] == recorded.number(futex["second"])
    parent = recorded.whole("child").threads["main"]
    longest = max(recorded.sleeps(recorded.number(parent)), key=lambda sleep: sleep.ns)
    assert longest.wake is not None
    [child] = [
        line
        for line in recorded.run.lines("thread")
        if line["parent_tgid"] == recorded.known["child"].pid and line["tid"] == line["tgid"]
    ]
    assert longest.wake["waker"] == child["thread"]


def test_read_is_woken_by_its_own_request(recorded: Recorded) -> None:
    """The reads are one after the other, so each sleep's request is known by its sector."""
    thread = recorded.whole("read").threads["main"]
    pieces = recorded.known["read"].pieces_of("main", "read")
    sleeps = [one for one in recorded.sleeps(recorded.number(thread)) if one.state == "io_wait"]
    assert len(sleeps) > READS / 2, "the disk was faster than the reader: nothing was tested"
    named = 0
    for sleep in sleeps:
        at = next(number for number, piece in enumerate(pieces) if sleep.begin_ns < piece.end_ns)
        wake = sleep.wake
        if wake is None or wake["cause"] != "request":
            continue
        assert (wake["dev"], wake["sector"]) == (recorded.dev, at * BLOCK_BYTES // SECTOR_BYTES)
        named += 1
    assert named + recorded.unseen >= WITH_REQUEST * len(sleeps)
