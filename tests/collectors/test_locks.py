# SPDX-License-Identifier: BSD-2-Clause
"""The locks source against the kernel's own event tracer, wait by wait, and against the waiters' clocks."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.lock_events import lock_events, pair
from tests.collectors.lock_waits import assert_balanced, assert_same, lost_waits, rows_of, storm
from tests.collectors.recording import (
    INSIDE,
    Recording,
    compile_program,
    holding,
    let_go,
    needs_btf,
    needs_root,
    read_table,
    recording,
)

pytestmark = [needs_root, needs_btf]
EDGE_NS = 1_000_000_000  # a wait that is open at an edge of the recording goes on for longer in it


def test_pipe_storm_counts_every_wait_and_splits_it(tmp_path: Path) -> None:
    # Emulated CPUs that the host runs in turns seldom meet at a lock: then again. Each has to be right.
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        result = storm(folder, "pipe_storm", ["2", "2", "0", "60000"])
        run, truth = result.run, result.truth
        assert_balanced(run)
        rows = rows_of(run, "mutex")
        compared = assert_same(rows, truth, "mutex", lost_waits(run))
        if compared > 300:
            break
    assert compared > (0 if INSIDE else 300), "the storm made no contention: nothing was tested"

    facts = json.loads(result.output)
    assert facts["attempts"] == 240_000
    mine = rows[np.isin(rows["lock_id"], list(truth)) & (rows["in_workload"] == 1)]
    total = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert compared <= facts["attempts"]
    assert 0 < total < facts["thread_wall_ns"]
    assert np.all(mine["max_ns"] <= mine["spin_ns"] + mine["sleep_ns"])
    # Each wait is in the bin in which it ended.
    bin_ns = read_table(run.out / "lock_wait.rec")[0]["bin_ns"]
    assert np.all(mine["bin_ns"] % bin_ns == 0)
    assert np.all(mine["bin_ns"] + bin_ns > facts["begin_ns"])
    assert np.all(mine["bin_ns"] < facts["end_ns"])

    # The call path is the pipe's, from the lock outwards.
    stacks = {stack["stack_id"]: stack["frames"] for stack in run.lines("stack")}
    pipe = max(truth, key=lambda lock: truth[lock].count)
    for row in mine[(mine["lock_id"] == pipe) & (mine["stack_id"] >= 0)]:
        frames = [frame.split("+")[0] for frame in stacks[row["stack_id"]]]
        assert "mutex_lock" in frames[0]
        assert any("pipe_read" in frame or "pipe_write" in frame for frame in frames)
    assert {lock["lock_id"]: lock["kind"] for lock in run.lines("lock")}[pipe] == "mutex"


def test_rename_storm_sleeping_locks(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    result = storm(tmp_path, "rename_storm", [tmp_path / "files", "6", "4000"])
    run, truth = result.run, result.truth
    assert_balanced(run)
    lost = lost_waits(run)
    compared = sum(assert_same(rows_of(run, kind), truth, kind, lost) for kind in ("mutex", "rwsem"))
    assert compared > (0 if INSIDE else 100), "the storm made no contention: nothing was tested"
    table = run.table("lock_wait")
    mine = table[table["in_workload"] == 1]
    assert (
        int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
        < json.loads(result.output)["thread_wall_ns"] * 1.01
    )
    assert mine["sleep_ns"].sum() > 0


def test_a_killed_waiter_is_a_failed_wait(tmp_path: Path) -> None:
    program = compile_program("mmap_storm", tmp_path)
    with (
        lock_events(tmp_path) as stream,
        recording(tmp_path / "out", "--collect", "locks") as run,
    ):
        for _ in range(60):  # those that wait to read cannot be killed
            with subprocess.Popen([program, "8"]) as child:
                until_most_wait(child.pid)
                child.send_signal(signal.SIGKILL)
    truth = pair(stream.events, stream.unseen)
    mine = {event.lock for event in stream.events if event.comm == "mmap_storm"}
    failed = sum(truth[lock].failed for lock in mine if lock in truth and truth[lock].kinds == {"rwsem"})
    assert failed > 0, "no waiter was killed while it waited: nothing was tested"
    rows = rows_of(run, "rwsem")
    assert_same(rows, {lock: truth[lock] for lock in mine if lock in truth}, "rwsem")
    assert int(rows["failed"][np.isin(rows["lock_id"], list(mine))].sum()) == failed
    assert_balanced(run)


def until_most_wait(pid: int) -> None:
    """Until four threads sleep where only fatal signals wake them: in mmap_storm, waiting for its mmap_lock.

    One alone may have the lock before the signal comes, or sleep for something else.
    """
    deadline = time.monotonic() + 60
    while True:
        waiting = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # gone meanwhile
                waiting += ") D " in (task / "stat").read_text()
        if waiting >= 4:
            return
        assert time.monotonic() < deadline, "no threads wait: nothing can be tested"


def waits_in_pipe_write(run: Recording) -> npt.NDArray[np.void]:
    """Waits for mutexes of pipes; others on this machine may wait for other mutexes as long."""
    stacks = [stack["stack_id"] for stack in run.lines("stack") if "pipe_write" in " ".join(stack["frames"])]
    rows = rows_of(run, "mutex")
    mine: npt.NDArray[np.void] = rows[np.isin(rows["stack_id"], stacks)]
    return mine


@pytest.mark.parametrize("hold_ms", [250])
def test_a_wait_of_known_length(tmp_path: Path, hold_ms: int) -> None:
    program = compile_program("pipe_holder", tmp_path)
    with recording(tmp_path / "out", "--collect", "locks") as run:
        facts = json.loads(
            subprocess.run([program, "1", str(hold_ms)], check=True, capture_output=True).stdout
        )
    (waiter,) = facts["waiters"]
    rows = waits_in_pipe_write(run)
    mine = rows[rows["max_ns"] > hold_ms * 1_000_000 * 0.9]
    assert len(mine) == 1, mine
    wall = waiter["end_ns"] - waiter["begin_ns"]
    total = int(mine["spin_ns"][0] + mine["sleep_ns"][0])
    assert mine["count"][0] == 1
    assert total == mine["max_ns"][0]
    # The wait is shorter than the call, and as long at least as from being seen until the page is given.
    known_ns = facts["given_ns"] - waiter["waiting_ns"]
    assert hold_ms * 1_000_000 <= known_ns < total <= wall
    # The holder sleeps, so nobody spins for it: all of the time that the waiter was seen asleep.
    assert int(mine["sleep_ns"][0]) >= known_ns
    # It ended after the page was given.
    bin_ns = read_table(run.out / "lock_wait.rec")[0]["bin_ns"]
    assert mine["bin_ns"][0] <= waiter["end_ns"]
    assert facts["given_ns"] < mine["bin_ns"][0] + bin_ns


def test_waits_open_at_the_start_and_at_the_end_are_counted(tmp_path: Path) -> None:
    program = compile_program("pipe_holder", tmp_path)

    def start() -> subprocess.Popen[str]:
        words: list[str | Path] = [program, "3", "0"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    with holding(start()) as early, recording(tmp_path / "out", "--collect", "locks") as run:
        time.sleep(EDGE_NS / 1e9)
        let_go(early)
        with holding(start()):
            time.sleep(EDGE_NS / 1e9)
            run.stop()
    notes = run.source("locks")["notes"]
    # Three waiters each; whatever else the system did at that moment can only add to it.
    assert 3 <= notes["open at the start (or begin not seen)"] <= 20
    assert 3 <= notes["open at the end"] <= 20
    assert not np.any(waits_in_pipe_write(run)["max_ns"] >= EDGE_NS), (
        "a wait that was open at an edge has been given a length"
    )
    assert_balanced(run)


def test_a_full_map_is_a_counted_loss(tmp_path: Path) -> None:
    # Two at once, so that there is always more than one lock.
    renames, pipe = (compile_program(name, tmp_path) for name in ("rename_storm", "pipe_storm"))
    (tmp_path / "files").mkdir()
    with (
        recording(tmp_path / "out", "--collect", "locks", env={"SEEKMETER_LOCK_ENTRIES": "1"}) as run,
        subprocess.Popen([pipe, "2", "2", "0", "60000"], stdout=subprocess.DEVNULL) as other,
    ):
        subprocess.run([renames, tmp_path / "files", "6", "4000"], check=True, capture_output=True)
        assert other.wait() == 0
    state = run.source("locks")
    assert state["lost"]["map full"] > 0
    assert state["recorded"] > 0
    assert_balanced(run)


def test_a_recorder_that_is_late_counts_what_it_lost(tmp_path: Path) -> None:
    program = compile_program("pipe_storm", tmp_path)
    with recording(tmp_path / "out", "--collect", "locks", "--bin-ms", "10") as run:
        run.process.send_signal(signal.SIGSTOP)
        subprocess.run([program, "2", "2", "1"], check=True, capture_output=True)
        run.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
    state = run.source("locks")
    assert state["lost"]["recorder late"] > 0
    assert_balanced(run)
