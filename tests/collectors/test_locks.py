# SPDX-License-Identifier: BSD-2-Clause
"""The locks source against the kernel's own event tracer, wait by wait, and against the waiters' clocks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.collectors.lock_events import LockEvents, lock_events
from tests.collectors.lock_waits import (
    ASLEEP,
    assert_balanced,
    assert_same,
    lost_waits,
    recording_between,
    rows_of,
    storm,
    until_most_wait,
    waits_of,
)
from tests.collectors.recording import (
    Recording,
    cgroup,
    compile_program,
    enum_value,
    holding,
    let_go,
    needs_btf,
    read_table,
    recording,
    run_inside,
    until_stopped,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
HOLD_NS = 100_000_000
# Bins so long that a recorder which gets no CPU for a while is not late with them.
BINS = ("--collect", "locks", "--bin-ms", "2000")


def test_pipe_storm_counts_every_wait_and_splits_it(tmp_path: Path) -> None:
    result = storm(tmp_path, "pipe_storm", ["2", "2", "0", "20000"], enough=300)
    run, truth, facts = result.run, result.truth, result.facts
    assert_balanced(run)
    rows = rows_of(run, "mutex")
    compared = assert_same(rows, truth, "mutex", lost_waits(run))
    assert compared
    assert all(fact["attempts"] == 80_000 for fact in facts)
    mine = rows[np.isin(rows["lock_id"], list(truth)) & (rows["in_workload"] == 1)]
    total = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert compared <= 80_000 * len(facts)
    assert 0 < total < sum(fact["thread_wall_ns"] for fact in facts)
    assert np.all(mine["max_ns"] <= mine["spin_ns"] + mine["sleep_ns"])
    # Each wait is in the bin in which it ended.
    bin_ns = read_table(run.out / "lock_wait.rec")[0]["bin_ns"]
    assert np.all(mine["length_ns"] <= bin_ns)
    assert np.all(mine["bin_ns"] + mine["length_ns"] > facts[0]["begin_ns"])
    assert np.all(mine["bin_ns"] < facts[-1]["end_ns"])

    # The call path is the pipe's, from the lock outwards.
    stacks = {stack["stack_id"]: stack["frames"] for stack in run.lines("stack")}
    pipe = max(truth, key=lambda lock: truth[lock].count)
    for row in mine[(mine["lock_id"] == pipe) & (mine["stack_id"] >= 0)]:
        frames = [frame.split("+")[0] for frame in stacks[row["stack_id"]]]
        assert "mutex_lock" in frames[0]
        assert any("pipe_read" in frame or "pipe_write" in frame for frame in frames)
    assert {int(lock["address"], 16): lock["kind"] for lock in run.lines("lock")}[pipe] == "mutex"


def test_rename_storm_sleeps_on_rename_locks(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    result = storm(tmp_path, "rename_storm", [tmp_path / "files", "6", "600"], enough=50, wanted=ASLEEP)
    run, truth = result.run, result.truth
    assert_balanced(run)
    lost = lost_waits(run)
    compared = sum(assert_same(rows_of(run, kind), truth, kind, lost) for kind in ("mutex", "rwsem"))
    assert compared
    # A thread's waits in its renames are parts of their time.
    renames = [stack["stack_id"] for stack in run.lines("stack") if "rename" in " ".join(stack["frames"])]
    table = run.table("lock_wait")
    mine = table[(table["in_workload"] == 1) & np.isin(table["stack_id"], renames)]
    waited_ns = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert 0 < waited_ns < sum(fact["thread_wall_ns"] for fact in result.facts)
    assert mine["sleep_ns"].sum() > 0


def test_killed_waiter_is_a_failed_wait(tmp_path: Path) -> None:
    program = compile_program("mmap_storm", tmp_path)
    with recording_between(tmp_path) as (run, stream):
        for _ in range(5):  # those that wait to read cannot be killed
            with subprocess.Popen([program, "8"]) as child:
                until_most_wait(child.pid)
                child.send_signal(signal.SIGKILL)
    truth = waits_of(stream, "mmap_storm")
    failed = sum(waits.failed for waits in truth.values() if waits.kinds == {"rwsem"})
    assert failed > 0, "no waiter was killed while it waited: nothing was tested"
    assert_balanced(run)
    rows, lost = rows_of(run, "rwsem"), lost_waits(run)
    assert_same(rows, truth, "rwsem", lost)
    assert failed - lost <= int(rows["failed"][np.isin(rows["lock_id"], list(truth))].sum()) <= failed


def waits_in_pipe_write(run: Recording) -> npt.NDArray[np.void]:
    """The workload's waits for mutexes of pipes."""
    stacks = [stack["stack_id"] for stack in run.lines("stack") if "pipe_write" in " ".join(stack["frames"])]
    rows = rows_of(run, "mutex")
    mine: npt.NDArray[np.void] = rows[np.isin(rows["stack_id"], stacks) & (rows["in_workload"] == 1)]
    return mine


def test_wait_of_known_length_is_recorded(tmp_path: Path) -> None:
    program = compile_program("pipe_holder", tmp_path)
    with cgroup() as group, recording(tmp_path / "out", *BINS, "--cgroup", str(group)) as run:
        child = run_inside(group, [program, "1", str(HOLD_NS // 1_000_000)], stderr=subprocess.DEVNULL)
        facts = json.loads(child.communicate(timeout=120)[0])
    (waiter,) = facts["waiters"]
    rows = waits_in_pipe_write(run)
    assert len(rows) == 1, rows
    wall = waiter["end_ns"] - waiter["begin_ns"]
    total = int(rows["spin_ns"][0] + rows["sleep_ns"][0])
    assert rows["count"][0] == 1
    assert total == rows["max_ns"][0]
    # The wait is shorter than the call, and as long at least as from being seen until the page is given.
    known_ns = facts["given_ns"] - waiter["waiting_ns"]
    assert HOLD_NS <= known_ns < total <= wall
    # The holder sleeps, so nobody spins for it: all of the time that the waiter was seen asleep.
    assert int(rows["sleep_ns"][0]) >= known_ns
    # It ended after the page was given.
    bin_ns = read_table(run.out / "lock_wait.rec")[0]["bin_ns"]
    assert rows["bin_ns"][0] <= waiter["end_ns"]
    assert facts["given_ns"] < rows["bin_ns"][0] + bin_ns


def open_waits(stream: LockEvents, since_ns: int, until_ns: int) -> int:
    """How many waits were open at some time between."""
    begun: dict[tuple[int, int, int], int] = {}
    found = 0
    for event in stream.events:
        # All idle tasks have one pid.
        key = (event.pid, event.cpu if event.pid == 0 else -1, event.lock)
        if event.begin:
            begun.setdefault(key, event.t_ns)
        elif key in begun:
            found += begun.pop(key) <= until_ns and event.t_ns >= since_ns
        else:
            found += event.t_ns >= since_ns  # it began before the tracer
    return found + sum(begin_ns <= until_ns for begin_ns in begun.values())


def test_waits_open_at_the_start_and_at_the_end_are_counted(tmp_path: Path) -> None:
    program = compile_program("pipe_holder", tmp_path)
    with cgroup() as group, lock_events(tmp_path) as stream:

        def start() -> subprocess.Popen[str]:
            return run_inside(group, [program, "3", "0"], stderr=subprocess.PIPE)

        with holding(start()) as early:
            starting_ns = time.monotonic_ns()
            with recording(tmp_path / "out", *BINS, "--cgroup", str(group)) as run:
                started_ns = time.monotonic_ns()
                let_go(early)
                with holding(start()):
                    run.stop()
                    over_ns = time.monotonic_ns()
    state = run.source("locks")
    # Three waiters each. What others wait for at that moment is no more than the event tracer saw.
    idle = os.cpu_count() or 1  # whose waits it may not see, see storm()
    unseen = idle + state["bpf"]["recursion_misses"]
    at_start = state["notes"]["open at the start (or begin not seen)"]
    assert 3 <= at_start <= open_waits(stream, starting_ns, started_ns) + unseen
    at_end = state["notes"]["open at the end"]
    assert 3 <= at_end <= open_waits(stream, run.stopped_ns, over_ns) + unseen
    assert len(waits_in_pipe_write(run)) == 0, "a wait that was open at an edge has been given a length"
    assert_balanced(run)


def hold_pipes(program: Path, count: int) -> None:
    """As many pipes, each with a waiter for its mutex; the waits end one after the other."""
    with ExitStack() as stack:
        for _ in range(count):
            words: list[str | Path] = [program, "1", "0"]
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.enter_context(holding(child))


def test_full_wait_map_is_a_counted_loss(tmp_path: Path) -> None:
    """Each bin has room for one lock; four are waited for in one bin, or in two."""
    program = compile_program("pipe_holder", tmp_path)
    with recording(tmp_path / "out", *BINS, env={"SEEKMETER_LOCK_ENTRIES": "1"}) as run:
        hold_pipes(program, 4)
    state = run.source("locks")
    assert state["lost"]["map full"] > 0
    assert state["recorded"] > 0
    assert_balanced(run)


def test_late_recorder_counts_lost_waits(tmp_path: Path) -> None:
    program = compile_program("pipe_holder", tmp_path)
    with recording(tmp_path / "out", "--collect", "locks", "--bin-ms", "10") as run:
        run.process.send_signal(signal.SIGSTOP)
        until_stopped(run.process.pid)
        time.sleep(0.1)  # more bins than there is room for
        hold_pipes(program, 1)
        run.process.send_signal(signal.SIGCONT)
    assert run.source("locks")["lost"]["recorder late"] > 0
    assert_balanced(run)


def test_percpu_writers_reported_before_they_try_are_noted(tmp_path: Path) -> None:
    """Each read of /proc/locks takes file_rwsem for writing (locks_start() in fs/locks.c), uncontended."""
    reads = 20
    with recording(tmp_path / "out", *BINS) as run:
        for _ in range(reads):
            Path("/proc/locks").read_bytes()
    rows = rows_of(run, "percpu_rwsem")
    write = enum_value(run.out / "lock_wait.rec", "lock_mode", "write")
    waits = int(rows[rows["mode"] == write]["count"].sum())
    untried = run.source("locks")["notes"]["percpu rwsem writers reported before they try"]
    if untried:  # this kernel reports every writer
        assert reads <= untried <= waits + lost_waits(run)
    else:
        assert waits < reads
