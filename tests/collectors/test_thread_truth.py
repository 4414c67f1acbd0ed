# SPDX-License-Identifier: BSD-2-Clause
"""Thread time beside what the threads know themselves (programs/known_times.c) and what the kernel counts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.known_times import (
    Known,
    KnownThread,
    delays_counted,
    few_dirty_bytes,
    run_known,
    throttled_reads,
)
from tests.collectors.loop_disk import MIB, loop_disk, mounted
from tests.collectors.recording import (
    SLOWER,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    needs_btf,
    recording,
    stolen_ns,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

MS = 200 * (4 if SLOWER > 1 else 1)
ROUNDS = 2000
READS, READS_A_SECOND = 9, 20
ASLEEP = ("sleeping", "blocked", "io_wait")
# The issue's own tolerances.
OF_WALL, OF_COUNTS = 0.001, 0.005
# Between the kernel's look at its clock and ours: in each interval; from the choice of a thread to the
# switch, which other tracers see first; and in all, by a busy host.
MOMENT_NS, SWITCH_NS, MOMENTS_NS = 2_000 * SLOWER, 20_000 * SLOWER, 500_000 * SLOWER


@dataclass(frozen=True)
class Recorded:
    """One recording in which the program ran in every mode."""

    run: Recording
    known: dict[str, Known]
    times: npt.NDArray[np.void]
    stolen_ns: int

    def line(self, thread: KnownThread) -> dict[str, Any]:
        """Return the thread's line of the table thread."""
        [line] = [line for line in self.run.lines("thread") if line["tid"] == thread.tid]
        return line

    def ns(self, thread: KnownThread, *states: str) -> int:
        """Return the thread's time in these states; in none: in all."""
        return int(self.rows(thread, *states)["ns"].sum())

    def rows(self, thread: KnownThread, *states: str) -> npt.NDArray[np.void]:
        """Return the thread's rows of thread_time in these states."""
        rows: npt.NDArray[np.void] = self.times[self.times["thread"] == self.line(thread)["thread"]]
        path = self.run.out / "thread_time.rec"
        numbers = [enum_value(path, "thread_state", state) for state in states]
        if states:
            rows = rows[np.isin(rows["state"], numbers)]
        return rows

    def moments_ns(self, thread: KnownThread, state: str, most_ns: int) -> int:
        """Return what may lie between the kernel's look at its clock and ours. most_ns: in one interval."""
        return most_ns * int(self.rows(thread, state)["count"].sum()) + MOMENTS_NS + self.stolen_ns

    def unseen_ns(self, thread: KnownThread) -> int:
        """Return the thread's life before its first and after its last own look at the clock."""
        line = self.line(thread)
        assert line["start_ns"] <= thread.begin_ns <= thread.end_ns <= line["end_ns"]
        return (thread.begin_ns - int(line["start_ns"])) + (int(line["end_ns"]) - thread.end_ns)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("threads")
    program = compile_program("known_times", folder)
    known: dict[str, Known] = {}
    with ExitStack() as stack:
        stack.enter_context(delays_counted())
        group = stack.enter_context(cgroup())
        disk = stack.enter_context(loop_disk(folder / "image", 256 * MIB))
        slow = stack.enter_context(loop_disk(folder / "slow", 16 * MIB))
        reads = stack.enter_context(throttled_reads(slow, READS_A_SECOND))
        subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
        files = stack.enter_context(mounted(disk.path, folder / "files"))
        is_throttled = stack.enter_context(few_dirty_bytes(disk, 4 * MIB))
        before_ns = stolen_ns()
        run = stack.enter_context(recording(folder / "out", "--collect", "threads", "--cgroup", str(group)))
        for mode in ("sleep", "hog", "hogs", "futex", "child"):
            known[mode] = run_known(program, group, mode, MS)
        known["pingpong"] = run_known(program, group, "pingpong", ROUNDS)
        known["fsync"] = run_known(program, group, "fsync", 20, files / "synced")
        known["read"] = run_known(program, group, "read", READS, slow.path, join=reads)
        if is_throttled:
            known["write"] = run_known(program, group, "write", 24, files / "written")
        run.stop()
        yield Recorded(run, known, run.table("thread_time"), stolen_ns() - before_ns)


def threads_of(recorded: Recorded) -> list[KnownThread]:
    return [thread for known in recorded.known.values() for thread in known.threads.values()]


def test_states_sum_to_the_thread_s_wall_time(recorded: Recorded) -> None:
    for thread in threads_of(recorded):
        line = recorded.line(thread)
        assert (line["comm"], line["role"]) == (thread.name, "workload")
        wall_ns = line["end_ns"] - line["start_ns"]
        assert recorded.ns(thread) == pytest.approx(wall_ns, rel=OF_WALL)
    assert sum(recorded.run.source("threads")["lost"].values()) == 0


def test_no_bin_has_more_than_its_length(recorded: Recorded) -> None:
    for thread in threads_of(recorded):
        rows = recorded.rows(thread)
        for start_ns in np.unique(rows["bin_ns"]):
            in_bin = rows[rows["bin_ns"] == start_ns]
            assert in_bin["ns"].sum() <= in_bin["length_ns"].max()


def test_run_and_run_delay_equal_schedstat(recorded: Recorded) -> None:
    """Within 0.5 %, and what the thread did before and after its own look at schedstat.

    The kernel looks at its clock as it picks the next thread, and traces the switch to it later: what lies
    between is running for it and waiting here.
    """
    for thread in threads_of(recorded):
        counts_ns = {"running": thread.run_ns, "runnable": thread.run_delay_ns}
        for states, most_ns in (
            (("running", "runnable"), MOMENT_NS),
            (("running",), SWITCH_NS),
            (("runnable",), SWITCH_NS),
        ):
            count_ns = sum(counts_ns[state] for state in states)
            slack_ns = OF_COUNTS * count_ns + recorded.moments_ns(thread, states[0], most_ns)
            more_ns = recorded.ns(thread, *states) - count_ns
            assert -slack_ns <= more_ns <= slack_ns + recorded.unseen_ns(thread), (thread, states)


def test_the_kernel_s_counts_are_in_the_thread_table(recorded: Recorded) -> None:
    for thread in threads_of(recorded):
        line, unseen_ns = recorded.line(thread), recorded.unseen_ns(thread)
        for key, count_ns in (
            ("run_ns", thread.run_ns),
            ("run_delay_ns", thread.run_delay_ns),
            ("blkio_delay_ns", thread.blkio_ns),
        ):
            assert 0 <= line[key] - count_ns <= unseen_ns, (thread.name, key)
        slept = int(recorded.rows(thread, *ASLEEP)["count"].sum())
        assert line["switches"] >= thread.sleeps + thread.preemptions - 1
        assert slept <= thread.sleeps + 4  # and those of its end


def test_io_wait_equals_the_blkio_delay_of_taskstats(recorded: Recorded) -> None:
    for mode in {"read", "fsync", "write"} & recorded.known.keys():
        thread = recorded.known[mode].threads["main"]
        assert thread.blkio_ns > 0, "nothing was waited for: nothing was tested"
        slack_ns = OF_COUNTS * thread.blkio_ns + recorded.moments_ns(thread, "io_wait", MOMENT_NS)
        more_ns = recorded.ns(thread, "io_wait") - thread.blkio_ns
        assert -slack_ns <= more_ns <= slack_ns + recorded.unseen_ns(thread), thread
    for mode in ("sleep", "hog", "pingpong"):
        assert recorded.ns(recorded.known[mode].threads["main"], "io_wait") == 0


def test_known_sleeps_are_in_their_state(recorded: Recorded) -> None:
    """Each at least as long as asked for, and at most as long as the thread's own clock has it."""
    for mode, name, what in (
        ("sleep", "main", ("sleep",)),
        ("futex", "second", ("sleep",)),
        ("futex", "main", ("pipe", "futex")),
        ("child", "main", ("child",)),
    ):
        known = recorded.known[mode]
        thread = known.threads[name]
        pieces = [piece for one in what for piece in known.pieces_of(name, one)]
        slept_ns = sum(piece.ns for piece in pieces)
        own_ns = recorded.ns(thread, "running", "runnable")
        assert slept_ns - own_ns <= recorded.ns(thread, "sleeping") <= slept_ns + recorded.unseen_ns(thread)


def test_two_hogs_of_one_cpu_wait_for_each_other(recorded: Recorded) -> None:
    """What each waited for a CPU while the other ran: the one that ends last, for all that the other ran."""
    path = recorded.run.out / "thread_time.rec"
    by_workload = enum_value(path, "thread_role", "workload")
    first, last = sorted(recorded.known["hogs"].threads.values(), key=lambda thread: thread.end_ns)
    waited_ns = {}
    for thread in (first, last):
        rows = recorded.rows(thread, "runnable")
        waited_ns[thread.name] = int(rows["ns"][rows["by"] == by_workload].sum())
    alone_ns = max(0, last.begin_ns - first.begin_ns)  # at its begin
    most_ns = recorded.ns(first, "running")
    # A run ends for the kernel as the next thread is chosen; on emulated CPUs that is long before the switch.
    switches_ns = {
        thread.name: recorded.moments_ns(thread, "runnable", SWITCH_NS) if SLOWER > 1 else 0
        for thread in (first, last)
    }
    # The process's first thread starts them.
    assert 0.98 * most_ns - alone_ns <= waited_ns[last.name] <= 1.02 * most_ns + switches_ns[last.name]
    assert waited_ns[first.name] <= 1.02 * recorded.ns(last, "running") + switches_ns[first.name]
