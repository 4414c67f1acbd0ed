# SPDX-License-Identifier: BSD-2-Clause
"""One recording in which programs/known_times.c, whose threads know their time, runs in every mode."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.rundir.run import open_run
from analysis.tables.load import Tables, load_tables
from tests.collectors.busy_cpus import busy_cpus, one_cpu
from tests.collectors.event_rows import MKFS
from tests.collectors.known_sleeps import Sleeps
from tests.collectors.known_times import (
    Known,
    KnownThread,
    delays_counted,
    few_dirty_bytes,
    read_in_own_cgroups,
    run_known,
    small_memory,
    throttled,
)
from tests.collectors.loop_disk import MIB, LoopDisk, loop_disk, mounted
from tests.collectors.recording import (
    SLOWER,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    recording,
    stolen_ns,
)

MS = 80 * (4 if SLOWER > 1 else 1)
ROUNDS = 2000  # of the ping-pong
READS = 500  # from a fast disk
SLOW_READS, READS_A_SECOND = 7, 20
ALONE, ALONE_READS = 4, 3  # readers at once from the slow disk
SYNCS = 20
WRITTEN_MIB, DIRTY_BYTES = 24, 4 * MIB
RECLAIMED_MIB, MEMORY_BYTES, RECLAIM_BPS = 24, 12 * MIB, 40 * MIB
BLOCK_BYTES = 4096
COLLECT = ("block", "calls", "events", "locks", "threads", "sched")


@dataclass(frozen=True)
class Unseen:
    """What process 1 did, over whose threads the kernel of a guest may run no BPF program."""

    switches: int
    ran_ns: int


@dataclass(frozen=True)
class KnownRun:
    """The recording, and what the program said of itself in each mode that the machine can have."""

    run: Recording
    folder: Path  # a run directory
    known: dict[str, Known]
    devs: dict[str, int]  # disks by their use, as the tables number them
    stolen_ns: int  # by the hypervisor, meanwhile
    process_1: Unseen  # what it did meanwhile
    # readers of the fair class, and how long each one's cgroup waited for I/O; none: the machine can't tell
    alone: list[tuple[Known, int]]

    def unseen(self) -> Counter[str]:
        """Runs, sleeps and wakes of any thread that the collector threads did not see begin.

        Here the kernel runs no BPF program over a thread of process 1, which leaves its CPU or wakes another.
        """
        notes = self.run.source("threads")["notes"]
        what = ("begins of runs", "begins of sleeps", "wake-ups")
        found = Counter({one: int(notes[f"{one} not seen"]) for one in what})
        assert max(found.values()) <= self.process_1.switches + 5, found
        return found

    @cached_property
    def times(self) -> npt.NDArray[np.void]:
        """Rows of thread_time.rec."""
        return self.run.table("thread_time")

    @cached_property
    def sleeps(self) -> Sleeps:
        """Times of all threads off their CPUs, by the collector sched."""
        return Sleeps(self.run)

    @cached_property
    def tables(self) -> Tables:
        """All tables, as reports read them."""
        return load_tables(open_run(self.folder))

    @cached_property
    def lines(self) -> dict[int, dict[str, Any]]:
        """Lines of the table thread by thread id; the program is over before its ids are used again."""
        return {line["tid"]: line for line in self.run.lines("thread") if line["role"] == "workload"}

    def line(self, thread: KnownThread) -> dict[str, Any]:
        """Return the thread's line of the table thread."""
        return self.lines[thread.tid]

    def number(self, thread: KnownThread) -> int:
        """Return the thread's number in the tables."""
        return int(self.line(thread)["thread"])

    def threads(self) -> list[KnownThread]:
        """All threads, of all modes."""
        return [thread for known in self.known.values() for thread in known.threads.values()]

    def rows(self, thread: KnownThread, *states: str) -> npt.NDArray[np.void]:
        """Return the thread's rows of thread_time in these states; in none: in all."""
        rows: npt.NDArray[np.void] = self.times[self.times["thread"] == self.line(thread)["thread"]]
        path = self.run.out / "thread_time.rec"
        numbers = [enum_value(path, "thread_state", state) for state in states]
        if states:
            rows = rows[np.isin(rows["state"], numbers)]
        return rows

    def ns(self, thread: KnownThread, *states: str) -> int:
        """Return the thread's time in these states; in none: in all."""
        return int(self.rows(thread, *states)["ns"].sum())

    def unseen_ns(self, thread: KnownThread) -> int:
        """Return the thread's life before its first and after its last own look at the clock."""
        line = self.line(thread)
        assert line["start_ns"] <= thread.begin_ns <= thread.end_ns <= line["end_ns"]
        return (thread.begin_ns - int(line["start_ns"])) + (int(line["end_ns"]) - thread.end_ns)

    def is_whole(self, known: Known) -> bool:
        """Whether nothing of it lies in time that sched gave up, as the machine did too much."""
        begin_ns = min(thread.begin_ns for thread in known.threads.values())
        end_ns = max(thread.end_ns for thread in known.threads.values())
        return not any(
            row["start_ns"] < end_ns and begin_ns < row["end_ns"] for row in self.run.lines("sched_window")
        )


def record_known(folder: Path) -> KnownRun:
    """Run the program in every mode in a new directory, and record it."""
    program = compile_program("known_times", folder)
    known: dict[str, Known] = {}
    alone: list[tuple[Known, int]] = []
    out = folder / "run/raw/recorder"
    out.mkdir(parents=True)
    with ExitStack() as stack:
        stack.enter_context(delays_counted())
        group = stack.enter_context(cgroup())
        disk = stack.enter_context(loop_disk(folder / "image", 256 * MIB))
        slow = stack.enter_context(loop_disk(folder / "slow", 16 * MIB))
        fast = stack.enter_context(loop_disk(folder / "fast", 16 * MIB))
        subprocess.run(
            ["dd", "status=none", "if=/dev/zero", f"of={fast.path}", "bs=1M", "count=16", "conv=fsync"],
            check=True,
        )
        subprocess.run([*MKFS["ext4"], disk.path], check=True, capture_output=True)
        files = stack.enter_context(mounted(disk.path, folder / "files"))
        words = ["--collect", ",".join(COLLECT), "--cgroup", str(group)]
        for one in (disk, slow, fast):
            words += ["--disk", one.name]
        words += ["--target-dev", (disk.sysfs / "dev").read_text().strip()]
        before_ns, before = stolen_ns(), unseen_so_far()
        run = stack.enter_context(recording(out, *words))
        for mode in ("sleep", "hog", "hogs", "futex", "child", "chain2", "chain3"):
            known[mode] = run_known(program, group, mode, MS)
        known["pingpong"] = run_known(program, group, "pingpong", ROUNDS)
        known["lock"] = run_known(program, group, "lock", MS, files / "locked")
        known["fsync"] = run_known(program, group, "fsync", SYNCS, files / "synced")
        known["flush"] = run_known(program, group, "fsync", SYNCS, fast.path)
        known["fastread"] = run_known(program, group, "read", READS, fast.path)
        # For the scheduler, who takes the CPU from another at once runs from before its wake-up is seen. The
        # disk's worker keeps to the other CPU.
        with one_cpu(), busy_cpus():
            known["busyread"] = run_known(program, group, "read", READS, fast.path)
        with throttled(slow, f"riops={READS_A_SECOND}", group) as join:
            if join is not None:
                for mode in ("read", "fault", "chainread"):
                    known[mode] = run_known(program, group, mode, SLOW_READS, slow.path, join=join)
                if (group / "io.pressure").exists():
                    alone = read_in_own_cgroups(program, group, ALONE_READS, slow.path, join, ALONE)
        with throttled(disk, f"wbps={RECLAIM_BPS}", group) as join, small_memory(MEMORY_BYTES) as more:
            if join is not None and more is not None:
                file = files / "reclaimed"
                known["reclaim"] = run_known(
                    program, group, "reclaim", RECLAIMED_MIB, file, join=[*join, *more]
                )
        with few_dirty_bytes(disk, DIRTY_BYTES) as is_throttled:
            if is_throttled:
                known["write"] = run_known(program, group, "write", WRITTEN_MIB, files / "written")
        run.stop()
        all_stolen_ns, after = stolen_ns() - before_ns, unseen_so_far()
        process_1 = Unseen(after.switches - before.switches, after.ran_ns - before.ran_ns)
        devs = {"disk": dev_of(disk), "slow": dev_of(slow), "fast": dev_of(fast)}
        facts = {
            "schema": 1,
            "clock": {
                "name": "CLOCK_MONOTONIC",
                "record_start_ns": run.ready["monotonic_ns"],
                "record_end_ns": run.stopped_ns,
            },
            "collect": list(COLLECT),
            "filesystem": {"name": "ext4", "others_of_kind": 1, "block_device": disk.name},
            "device": {"name": disk.name, "dev": (disk.sysfs / "dev").read_text().strip()},
        }
    (folder / "run/losses.json").write_bytes((out / "losses.json").read_bytes())
    (folder / "run/run.json").write_text(json.dumps(facts))
    return KnownRun(run, folder / "run", known, devs, all_stolen_ns, process_1, alone)


def unseen_so_far() -> Unseen:
    """Return how long process 1's threads have run, and how often they have left a CPU."""
    tasks = list(Path("/proc/1/task").iterdir())
    lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
    return Unseen(
        sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line),
        sum(int((task / "schedstat").read_text().split()[0]) for task in tasks),
    )


def fill(disk: LoopDisk) -> None:
    """Write all of a disk, so that reads of it are reads of its file."""
    with disk.path.open("wb", buffering=0) as device:
        device.write(bytes(16 * MIB))
        os.fsync(device.fileno())


def dev_of(disk: LoopDisk) -> int:
    """Return the number of a disk in the tables."""
    major, minor = map(int, (disk.sysfs / "dev").read_text().split(":"))
    return major << 20 | minor
