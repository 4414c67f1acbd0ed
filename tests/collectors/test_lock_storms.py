# SPDX-License-Identifier: BSD-2-Clause
"""Storms: waiting time against the threads' clocks, and every wait against the kernel's own event tracer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.lock_events import Event
from tests.collectors.lock_waits import assert_balanced, assert_same, rows_of, storm
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
    assert assert_same(rows, {lock: result.truth[lock] for lock in appends}, "rwsem") > 10
    mine = rows[np.isin(rows["lock_id"], list(appends))]
    waited_ns = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert int(mine["count"].sum()) <= facts["appends"]
    # Somebody's turn is the whole of the time: the rest of the threads' is waiting, and nothing is more.
    expected_ns = facts["thread_wall_ns"] - facts["wall_ns"]
    assert 0.8 * expected_ns < waited_ns <= facts["thread_wall_ns"]


@pytest.mark.parametrize("fs", FILESYSTEMS)
def test_fsync_storm_counts_the_waits_for_the_journal(tmp_path: Path, fs: str) -> None:
    """Also those of its own threads (jbd2, xfsaild, btrfs-transacti) for the locks the storm fights for."""
    with disk_of(fs, tmp_path) as disk:
        result = storm(tmp_path, "fsync_storm", [disk, "8", "40" if INSIDE else "150"])
    run = result.run
    assert_balanced(run)
    # Run queues' and such locks are fought for before the recorder is there, too.
    inside = {lock: waits for lock, waits in result.truth.items() if lock not in result.outside}
    compared = sum(assert_same(rows_of(run, kind), inside, kind) for kind in KINDS)
    assert compared > (0 if INSIDE else 20), "the storm made no contention: nothing was tested"
    table = run.table("lock_wait")
    mine = table[table["in_workload"] == 1]
    waited_ns = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert 0 < waited_ns < json.loads(result.output)["thread_wall_ns"] * 1.01


def nested_waits(events: list[Event]) -> tuple[int, int]:
    """Spinning waits that begin inside another of the same task: all but the idle tasks', and theirs.

    The idle tasks of all CPUs have one pid, so theirs may also be waits beside each other.
    """
    depth: dict[int, list[int]] = {}
    nested = [0, 0]
    for event in events:
        waiting = depth.setdefault(event.pid, [])
        if event.begin and "SPIN" in event.flags and "MUTEX" not in event.flags:
            nested[event.pid == 0] += bool(waiting)
            waiting.append(event.lock)
        elif not event.begin and event.lock in waiting:
            del waiting[waiting.index(event.lock) :]
    return nested[0], nested[1]


def test_waits_in_interrupts_inside_waits(tmp_path: Path) -> None:
    """Timers' interrupts that wait for a lock hit tasks that wait for another."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: use a machine with two")
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        result = storm(folder, "nested_storm", ["1"])
        run, truth = result.run, result.truth
        assert_balanced(run)
        state = run.source("locks")
        missed = state["lost"].get("program already running on this CPU", 0)
        sure, unsure = nested_waits(result.events)
        # An event that hits the program itself is lost, and may leave an end or a begin alone.
        assert sure - 2 * missed <= state["notes"]["nested in another wait"] <= sure + unsure + 2 * missed
        # The page table's lock is that of tasks alone; a lost event can be one of its waits, or their end.
        table_lock = max(truth.keys() - result.outside, key=lambda lock: truth[lock].count)
        spins = rows_of(run, "spinlock")
        counted = int(spins["count"][spins["lock_id"] == table_lock].sum())
        assert truth[table_lock].count - missed <= counted <= truth[table_lock].count
        if sure > 5:
            break
    assert sure > (-1 if INSIDE else 5), "no interrupt waited inside a wait: nothing was tested"
