# SPDX-License-Identifier: BSD-2-Clause
"""Storms: waiting time against the threads' clocks, and every wait against the kernel's own event tracer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.lock_events import Event
from tests.collectors.lock_waits import assert_balanced, assert_same, lost_waits, rows_of, storm
from tests.collectors.recording import INSIDE, needs_btf, needs_root
from tests.collectors.test_lock_truth import FILESYSTEMS, disk_of

pytestmark = [needs_root, needs_btf]
KINDS = ("mutex", "rwsem", "spinlock", "rwlock", "semaphore", "percpu_rwsem")


def test_the_waits_of_appenders_are_all_of_their_time_but_their_turn(tmp_path: Path) -> None:
    """One of six appends at a time, asleep for the disk, so nobody spins unseen: the other five wait."""
    with disk_of("ext4", tmp_path) as disk:
        result = storm(tmp_path, "append_storm", [disk / "file", "6", "60" if INSIDE else "300"])
    run, facts = result.run, json.loads(result.output)
    assert_balanced(run)
    rows = rows_of(run, "rwsem")
    stacks = {stack["stack_id"]: " ".join(stack["frames"]) for stack in run.lines("stack")}
    sampled = rows["stack_id"] >= 0
    appends = {
        int(row["lock_id"])
        for row in rows[sampled & (rows["in_workload"] == 1)]
        if "ext4_file_write_iter" in stacks[row["stack_id"]]
    }
    assert len(appends) == 1
    lost = lost_waits(run)
    assert assert_same(rows, {lock: result.truth[lock] for lock in appends}, "rwsem", lost) > 10
    mine = rows[np.isin(rows["lock_id"], list(appends))]
    waited_ns = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert int(mine["count"].sum()) <= facts["appends"]
    # Somebody's turn is the whole of the time: the rest of the threads' is waiting, and nothing is more.
    expected_ns = facts["thread_wall_ns"] - facts["wall_ns"]
    assert waited_ns <= facts["thread_wall_ns"]
    assert waited_ns > 0.8 * expected_ns or lost


@pytest.mark.parametrize("fs", FILESYSTEMS)
def test_fsync_storm_counts_the_waits_for_the_journal(tmp_path: Path, fs: str) -> None:
    """Also those of its own threads (jbd2, xfsaild, btrfs-transacti) for the locks the storm fights for."""
    with disk_of(fs, tmp_path) as disk:
        result = storm(tmp_path, "fsync_storm", [disk, "8", "40" if INSIDE else "150"])
    run = result.run
    assert_balanced(run)
    # Run queues' and such locks are fought for before the recorder is there, too.
    inside = {lock: waits for lock, waits in result.truth.items() if lock not in result.outside}
    lost = lost_waits(run)
    compared = sum(assert_same(rows_of(run, kind), inside, kind, lost) for kind in KINDS)
    assert compared > 0, "the storm made no contention: nothing was tested"
    table = run.table("lock_wait")
    mine = table[table["in_workload"] == 1]
    waited_ns = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert 0 < waited_ns < json.loads(result.output)["thread_wall_ns"] * 1.01


def nested_waits(events: list[Event]) -> int:
    """Spinning waits that begin inside another of the same task (but the idle ones: they have one pid)."""
    depth: dict[int, list[int]] = {}
    nested = 0
    for event in events:
        waiting = depth.setdefault(event.pid, [])
        if event.begin and "SPIN" in event.flags and "MUTEX" not in event.flags:
            nested += bool(waiting) and event.pid != 0
            waiting.append(event.lock)
        elif not event.begin and event.lock in waiting:
            del waiting[waiting.index(event.lock) :]
    return nested


def test_waits_in_interrupts_inside_waits(tmp_path: Path) -> None:
    """Timers' interrupts that wait for a lock hit tasks that wait for another: each is that lock's wait."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: use a machine with two")
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        result = storm(folder, "nested_storm", ["1"])
        run = result.run
        assert_balanced(run)
        state = run.source("locks")
        # An event that hits the program itself is lost and counted: a begin or an end, with it a wait.
        lost = sum(state["lost"].values())
        spins = rows_of(run, "spinlock")
        compared = 0
        for lock, waits in result.truth.items():
            if lock in result.outside or waits.kinds != {"spinlock"}:
                continue
            counted = int(spins["count"][spins["lock_id"] == lock].sum())
            assert waits.count - lost - waits.maybe_unseen <= counted <= waits.count, state["lost"]
            compared += waits.count
        nested = nested_waits(result.events)
        if nested > 5 and compared > 100:
            break
    # Emulated CPUs that the host runs in turns may not meet at a lock at all.
    assert INSIDE or compared > 100, "the storm made no contention: nothing was tested"
    # An interrupt may come between the two tracers: then the wait it hits has begun, or ended, for one only.
    if nested > 40:
        assert state["notes"]["nested in another wait"] > 0
    # What an interrupt waits for is not the workload's, whatever task it hits inside the kernel.
    stacks = {stack["stack_id"]: " ".join(stack["frames"]) for stack in run.lines("stack")}
    for row in spins:
        frames = stacks.get(row["stack_id"], "")
        if "hrtimer_interrupt" in frames and "mincore" in frames:
            assert row["in_workload"] == 0, frames
