# SPDX-License-Identifier: BSD-2-Clause
"""Storms: waiting time against the threads' clocks, and every wait against the kernel's own event tracer."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from collectors.host import kernel
from tests.collectors.lock_events import Event
from tests.collectors.lock_waits import SPINNING, assert_balanced, assert_same, lost_waits, rows_of, storm
from tests.collectors.recording import INSIDE, needs_btf
from tests.collectors.test_lock_truth import FILESYSTEMS, disk_of
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
KINDS = ("mutex", "rwsem", "spinlock", "rwlock", "semaphore", "percpu_rwsem")


def test_appenders_wait_all_the_time_but_their_turn(tmp_path: Path) -> None:
    """One of six appends at a time, asleep for the disk, so nobody spins unseen: the other five wait."""
    with disk_of("ext4", tmp_path) as disk:
        result = storm(tmp_path, "append_storm", [disk / "file", "6", "60" if INSIDE else "200"])
    run, (facts, *more) = result.run, result.facts
    assert not more
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
    # How often they wait is the scheduler's: one that has given the lock back may take it again at once.
    assert assert_same(rows, {lock: result.truth[lock] for lock in appends}, "rwsem", lost) > 0
    mine = rows[np.isin(rows["lock_id"], list(appends))]
    waited_ns = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert int(mine["count"].sum()) <= facts["appends"]
    assert waited_ns <= facts["thread_wall_ns"]
    # The turns of all together are no longer than the whole. What is neither a turn nor a wait is running, or
    # being kept from it.
    least_ns = facts["thread_wall_ns"] - facts["wall_ns"] - facts["run_ns"] - result.stolen_ns
    assert waited_ns >= least_ns or lost


@pytest.mark.parametrize("fs", FILESYSTEMS)
def test_fsync_storm_counts_the_waits_for_the_journal(tmp_path: Path, fs: str) -> None:
    """Also those of its own threads (jbd2, xfsaild, btrfs-transacti) for the locks the storm fights for."""
    with disk_of(fs, tmp_path) as disk:
        result = storm(tmp_path, "fsync_storm", [disk, "8", "40" if INSIDE else "60"])
    run = result.run
    assert_balanced(run)
    lost = lost_waits(run)
    assert sum(assert_same(rows_of(run, kind), result.truth, kind, lost) for kind in KINDS)
    # A thread's waits in its calls are parts of their time.
    calls = [
        stack["stack_id"]
        for stack in run.lines("stack")
        if any(call in " ".join(stack["frames"]) for call in ("fsync", "do_sys_open", "vfs_write"))
    ]
    table = run.table("lock_wait")
    mine = table[(table["in_workload"] == 1) & np.isin(table["stack_id"], calls)]
    waited_ns = int(mine["spin_ns"].sum() + mine["sleep_ns"].sum())
    assert 0 < waited_ns < sum(facts["thread_wall_ns"] for facts in result.facts)


def nested_waits(events: list[Event]) -> int:
    """Spinning waits that begin inside another of the same task, where the recorder must have seen both.

    It does not see what comes between the two tracers' looks at the clock for another event of the CPU. Idle
    tasks are left out: they have one pid.
    """
    open_waits: dict[int, list[Event]] = {}
    busy_until: Counter[int] = Counter()  # by CPU
    nested = 0
    for event in events:
        waiting = open_waits.setdefault(event.pid, [])
        seen = bool(event.until_ns) and event.t_ns > busy_until[event.cpu]
        busy_until[event.cpu] = max(busy_until[event.cpu], event.until_ns)
        if event.begin and "SPIN" in event.flags and "MUTEX" not in event.flags:
            nested += bool(seen and waiting and event.pid)
            if seen:
                waiting.append(event)
        elif not event.begin:
            at = next((at for at, begin in enumerate(waiting) if begin.lock == event.lock), len(waiting))
            del waiting[at:]
    return nested


def test_waits_in_interrupts_inside_waits_are_counted(tmp_path: Path) -> None:
    """Timers' interrupts that wait for a lock hit tasks that wait for another: each is that lock's wait."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: use a machine with two")
    if kernel.spinlock_mode() == "virt":
        pytest.skip("a guest's test-and-set spinlocks wait before the tracepoint: use bare metal")
    result = storm(tmp_path, "nested_storm", ["500"], enough=1000, wanted=SPINNING)
    run = result.run
    assert_balanced(run)
    state = run.source("locks")
    # An event that hits the program itself is lost and counted: a begin or an end, with it a wait.
    lost = sum(state["lost"].values())
    spins = rows_of(run, "spinlock")
    compared = 0
    for lock, waits in result.truth.items():
        if waits.kinds != {"spinlock"}:
            continue
        counted = int(spins["count"][spins["lock_id"] == lock].sum())
        assert waits.count - lost - waits.maybe_unseen <= counted <= waits.count, state["lost"]
        compared += waits.count
    assert compared, "the storm made no contention: nothing was tested"
    # A begin whose end is missed stays where waits nest, until the same lock's next one ends all from there.
    nested = state["notes"]["nested in another wait"]
    nested += state["lost"]["end not seen"] + state["lost"]["nested too deep"]
    assert nested >= nested_waits(result.events)
    # What an interrupt waits for is not the workload's, whatever task it hits inside the kernel.
    stacks = {stack["stack_id"]: " ".join(stack["frames"]) for stack in run.lines("stack")}
    for row in spins:
        frames = stacks.get(row["stack_id"], "")
        if "hrtimer_interrupt" in frames and "mincore" in frames:
            assert row["in_workload"] == 0, frames
