# SPDX-License-Identifier: BSD-2-Clause
"""Waits of a known length, for locks whose holder is known and does a known thing (programs/known_wait.c).

The least a wait must be needs no slack: the waiter is seen to wait before that time begins.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.lock_waits import assert_balanced, rows_of, storm
from tests.collectors.loop_disk import loop_disk, mounted
from tests.collectors.recording import (
    EMULATED,
    INSIDE,
    Recording,
    cgroup,
    compile_program,
    needs_btf,
    read_table,
    recording,
    run_inside,
)
from tests.marks import needs_root
from workloads import filesystems

pytestmark = [needs_root, needs_btf]
HOLD_MS = 600 if INSIDE else 100
# Bins so long that a recorder which gets no CPU for a while is not late with them.
BINS = ("--collect", "locks", "--bin-ms", "2000")
FILESYSTEMS = ("ext4", "xfs", "btrfs")


@dataclass(frozen=True)
class Wait:
    """A row of lock_wait with its numbers spelt out."""

    row: dict[str, Any]
    frames: list[str]  # the waiter's, the holder's, the root's: functions, innermost first
    holder_frames: list[str]
    root_frames: list[str]

    @property
    def ns(self) -> int:
        return int(self.row["spin_ns"] + self.row["sleep_ns"])


def long_waits(run: Recording) -> list[Wait]:
    """The workload's waits that lasted as long as the hold, or longer."""
    header, table = read_table(run.out / "lock_wait.rec")
    enums = {field["name"]: header["enums"][field["enum"]] for field in header["fields"] if field.get("enum")}
    stacks = {
        stack["stack_id"]: [frame.split("+")[0] for frame in stack["frames"]] for stack in run.lines("stack")
    }
    found = []
    for record in table[(table["max_ns"] >= HOLD_MS * 1_000_000) & (table["in_workload"] == 1)]:
        row = {name: record[name] for name in table.dtype.names or ()}
        row |= {name: names[str(row[name])] for name, names in enums.items()}
        row["holder_comm"] = row["holder_comm"].decode()
        ids = [int(row[f"{whose}stack_id"]) for whose in ("", "holder_", "root_")]
        found.append(Wait(row, *(stacks.get(number, []) for number in ids)))
    return found


def wait_from(run: Recording, function: str, kind: str, mode: str) -> Wait:
    """The one long wait with such a function in its call path (a kernel may have anon_pipe_write.isra.0)."""
    found = [wait for wait in long_waits(run) if function in " ".join(wait.frames)]
    assert len(found) == 1, [wait.frames for wait in long_waits(run)]
    assert (found[0].row["kind"], found[0].row["mode"]) == (kind, mode)
    return found[0]


def assert_length(wait: Wait, call: dict[str, int], known_ns: int) -> None:
    """One wait, within its call, asleep while seen to be: nobody spins for a holder that doesn't run."""
    assert wait.row["count"] == 1
    assert wait.ns == wait.row["max_ns"]
    assert known_ns <= wait.row["sleep_ns"] <= wait.ns <= call["end_ns"] - call["begin_ns"]


def assert_holder(wait: Wait, comm: str, state: str, *functions: str) -> None:
    """Who held it, what it did, and from where."""
    assert (wait.row["holder_comm"], wait.row["holder_state"]) == (comm, state)
    assert_frames(wait.holder_frames, *functions)


def assert_frames(frames: list[str], *functions: str) -> None:
    """A holder's call path; emulated CPUs do without, on kernels older than bpf_task_from_pid()."""
    if EMULATED and not has_function("bpf_task_from_pid"):
        assert frames == []
        return
    for function in functions:
        assert function in " ".join(frames), frames


def has_function(name: str) -> bool:
    """Whether the kernel has such a function."""
    return any(line.split()[2] == name for line in Path("/proc/kallsyms").read_text().splitlines())


def run_known(tmp_path: Path, scenario: str, folder: Path) -> tuple[Recording, dict[str, Any]]:
    """One scenario, recorded; what the program says of it."""
    program = compile_program("known_wait", tmp_path)
    with cgroup() as group, recording(tmp_path / "out", *BINS, "--cgroup", str(group)) as run:
        words: list[str | Path] = [program, scenario, folder, str(HOLD_MS)]
        child = run_inside(group, words, stderr=subprocess.PIPE)
        output, errors = child.communicate(timeout=300)
    if child.returncode == 77:
        pytest.skip(f"{errors.strip()}: use a kernel with CONFIG_USERFAULTFD")
    assert child.returncode == 0, errors
    assert_balanced(run)
    facts: dict[str, Any] = json.loads(output)
    return run, facts


@contextmanager
def disk_of(fs: str, tmp_path: Path) -> Iterator[Path]:
    """An empty file system of its own."""
    if not filesystems.kernel_has(fs):
        pytest.skip(f"the kernel has no {fs}: use one that has")
    with loop_disk(tmp_path / f"{fs}.img", 512 << 20) as disk:
        subprocess.run([*filesystems.load(fs).mkfs, disk.path], check=True, capture_output=True)
        with mounted(disk.path, tmp_path / fs, "-t", fs) as folder:
            yield folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def test_sleeping_holder_of_a_pipe_is_found(tmp_path: Path, folder: Path) -> None:
    run, facts = run_known(tmp_path, "pipe", folder)
    wait = wait_from(run, "pipe_write", "mutex", "excl")
    assert_length(wait, facts["waiter"], HOLD_MS * 1_000_000)
    assert_holder(wait, "holder", "sleeping", "handle_userfault", "pipe_write")
    assert (wait.row["chain"], wait.row["holder_lock"], wait.row["root_lock"]) == (1, 0, 0)


@pytest.mark.parametrize("fs", FILESYSTEMS)
def test_sleeping_holder_of_a_file_is_found(tmp_path: Path, fs: str) -> None:
    with disk_of(fs, tmp_path) as disk:
        run, facts = run_known(tmp_path, "file", disk)
    wait = wait_from(run, "vfs_write", "rwsem", "write")
    assert_length(wait, facts["waiter"], HOLD_MS * 1_000_000)
    assert_holder(wait, "holder", "sleeping", "handle_userfault", "vfs_write")
    for frames in (wait.frames, wait.holder_frames or wait.frames):
        assert any(frame.startswith(f"{fs}_") for frame in frames), frames
    assert wait.row["chain"] == 1


@contextmanager
def hogs_unthrottled() -> Iterator[None]:
    """Real-time tasks may take all of a CPU: else ordinary ones get a part of each second."""
    setting = Path("/proc/sys/kernel/sched_rt_runtime_us")
    before = setting.read_text()
    try:
        setting.write_text("-1")
        yield
    finally:
        setting.write_text(before)


def test_runnable_holder_is_shown_waiting_for_a_cpu(tmp_path: Path, folder: Path) -> None:
    """As a throttled one is, but that newer kernels throttle nobody who is inside the kernel with a lock."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: use a machine with two")
    with hogs_unthrottled():
        run, facts = run_known(tmp_path, "runnable", folder)
    wait = wait_from(run, "vfs_write", "rwsem", "write")
    assert_length(wait, facts["waiter"], HOLD_MS * 1_000_000)
    assert_holder(wait, "holder", "runnable", "vfs_write")


def test_holder_waiting_for_a_second_lock_is_shown(tmp_path: Path, folder: Path) -> None:
    run, facts = run_known(tmp_path, "chain", folder)
    first = wait_from(run, "vfs_unlink", "rwsem", "write")
    assert_length(first, facts["middle"], HOLD_MS * 1_000_000)
    assert_holder(first, "holder", "sleeping", "handle_userfault", "vfs_write")
    assert first.row["chain"] == 1

    second = wait_from(run, "mkdir", "rwsem", "write")
    assert_length(second, facts["waiter"], HOLD_MS * 1_000_000)
    assert_holder(second, "middle", "lock", "vfs_unlink")
    assert second.row["chain"] == 2
    assert second.row["holder_lock"] == second.row["root_lock"] == first.row["lock_id"]
    assert second.row["root_state"] == "sleeping"
    assert_frames(second.root_frames, "handle_userfault", "vfs_write")


def test_chain_of_three_locks_is_followed(tmp_path: Path, folder: Path) -> None:
    run, facts = run_known(tmp_path, "chain3", folder)
    file = wait_from(run, "vfs_unlink", "rwsem", "write")
    renames = [wait for wait in long_waits(run) if "rename" in " ".join(wait.frames)]
    # Waits for the directory and, behind that, for the mutex of all renames between directories.
    (directory,) = [wait for wait in renames if wait.row["kind"] == "rwsem"]
    (mutex,) = [wait for wait in renames if wait.row["kind"] == "mutex"]
    for wait, actor in ((directory, "third"), (mutex, "fourth")):
        assert_length(wait, facts[actor], HOLD_MS * 1_000_000)
        assert wait.row["root_lock"] == file.row["lock_id"]
        assert wait.row["root_state"] == "sleeping"
        assert_frames(wait.root_frames, "handle_userfault")
    assert_holder(directory, "middle", "lock", "vfs_unlink")
    assert directory.row["chain"] == 2
    assert directory.row["holder_lock"] == file.row["lock_id"]
    assert_holder(mutex, "third", "lock")
    assert mutex.row["chain"] == 3
    assert mutex.row["holder_lock"] == directory.row["lock_id"]
    assert_frames(mutex.holder_frames, "rename")


def test_killed_waiter_for_readers_is_a_failed_wait(tmp_path: Path, folder: Path) -> None:
    run, facts = run_known(tmp_path, "killed", folder)
    wait = wait_from(run, "iterate_dir", "rwsem", "read")
    assert_length(wait, facts["waiter"], HOLD_MS * 1_000_000)
    assert wait.row["failed"] == 1
    assert wait.row["holder_state"] == "readers"
    # And the one that was not killed: for the reader, and after it.
    other = wait_from(run, "mkdir", "rwsem", "write")
    assert_length(other, facts["middle"], 2 * HOLD_MS * 1_000_000)
    assert other.row["failed"] == 0
    assert other.row["lock_id"] == wait.row["lock_id"]
    assert other.row["holder_state"] == "readers"


def test_frozen_file_system_is_a_wait_of_known_length(tmp_path: Path) -> None:
    program = compile_program("known_freeze", tmp_path)
    with (
        disk_of("ext4", tmp_path) as disk,
        cgroup() as group,
        recording(tmp_path / "out", *BINS, "--cgroup", str(group)) as run,
    ):
        facts = run_frozen(group, [program, disk, str(HOLD_MS)], disk)
    assert_balanced(run)
    waits = [wait for wait in long_waits(run) if wait.row["kind"] == "percpu_rwsem"]
    (wait,) = [wait for wait in waits if "mnt_want_write" in " ".join(wait.frames)]
    assert wait.row["mode"] == "read"
    assert_length(wait, facts["waiter"], HOLD_MS * 1_000_000)
    assert wait.row["holder_state"] == "unknown"


def test_holder_waiting_for_the_disk_is_shown(tmp_path: Path) -> None:
    """The disk is a file of a file system that is frozen."""
    program = compile_program("known_freeze", tmp_path)
    with (
        disk_of("ext4", tmp_path) as below,
        loop_disk(below / "disk", 64 << 20) as disk,
    ):
        subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
        with (
            mounted(disk.path, tmp_path / "above") as above,
            cgroup() as group,
            recording(tmp_path / "out", *BINS, "--cgroup", str(group)) as run,
        ):
            facts = run_frozen(group, [program, above, str(HOLD_MS), below], below)
    assert_balanced(run)
    wait = wait_from(run, "ext4_file_write_iter", "rwsem", "write")
    assert_length(wait, facts["waiter"], HOLD_MS * 1_000_000)
    assert_holder(wait, "holder", "io", "ext4_file_write_iter")
    assert wait.row["chain"] == 1


def run_frozen(group: Path, words: list[str | Path], frozen: Path) -> dict[str, Any]:
    """Run known_freeze; whatever becomes of it, the file system is thawed."""
    try:
        child = run_inside(group, words, stderr=subprocess.PIPE)
        output, errors = child.communicate(timeout=300)
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", frozen], capture_output=True, check=False)
    assert child.returncode == 0, errors
    facts: dict[str, Any] = json.loads(output)
    return facts


def test_holders_of_a_contended_lock_are_its_contenders(tmp_path: Path) -> None:
    run = storm(tmp_path, "pipe_storm", ["2", "2", "0", "20000"], enough=300).run
    assert_balanced(run)
    mutexes = rows_of(run, "mutex")
    mutexes = mutexes[mutexes["in_workload"] == 1]
    paths = [stack["stack_id"] for stack in run.lines("stack") if "pipe_" in " ".join(stack["frames"])]
    waits: Counter[int] = Counter()
    for row in mutexes[np.isin(mutexes["stack_id"], paths)]:
        waits[int(row["lock_id"])] += int(row["count"])
    # The storm's own pipes, not those that its facts go through: one write each, and this process reads it.
    mine = mutexes[np.isin(mutexes["lock_id"], [lock for lock, count in waits.items() if count > 20])]
    names = read_table(run.out / "lock_wait.rec")[0]["enums"]["lock_holder_state"]
    states = np.array([names[str(state)] for state in mine["holder_state"]])
    known = np.isin(states, ("running", "runnable", "sleeping", "lock", "io"))
    assert np.all(known | np.isin(states, ("nobody", "not_sampled"))), "a mutex remembers its holder"
    assert known.any(), "the storm made no contention: nothing was tested"
    assert set(mine["holder_comm"][known]) == {b"pipe_storm"}
    assert set(mine["holder_comm"][~known]) <= {b""}
    assert not np.any(mine["lock_id"] == mine["holder_lock"]), "its own waiter cannot hold it"
