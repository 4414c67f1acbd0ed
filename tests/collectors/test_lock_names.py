# SPDX-License-Identifier: BSD-2-Clause
"""Names of locks: the classes that known storms must fight for, and inodes against stat(2)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from collectors.host import blockdev
from collectors.trace import inode_paths as paths
from tests.collectors.lock_waits import MEET_S, SLEEPING, SPINNING, fight, until_most_wait
from tests.collectors.loop_disk import MIB, loop_disk, mounted, tmpfs
from tests.collectors.recording import INSIDE, Recording, compile_program, needs_btf, recording
from tests.collectors.recording import cgroup as fresh_cgroup
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
ENOUGH = 10  # waits of a fight
# By file system: how to make it, the class of the lock most specific to it, where its kernel has it.
MAKE = {
    "ext4": (["mkfs.ext4", "-q", "-F"], 128 * MIB),
    "xfs": (["mkfs.xfs", "-q", "-f"], 320 * MIB),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], 256 * MIB),
}
SYNC_CLASSES = {
    "ext4": {"journal_s.j_state_lock", "journal_s.j_wait_done_commit.lock", "journal_s.j_list_lock"},
    "xfs": {"xlog.l_icloglock", "xfs_cil.xc_ctx_lock", "xfs_buf.b_sema", "xfs_buf.b_sema.lock"},
    "btrfs": {"extent_buffer.lock", "btrfs_root.log_mutex", "btrfs_space_info.lock"},
}
INODE_STRUCT = {
    "ext4": "ext4_inode_info",
    "xfs": "xfs_inode",
    "btrfs": "btrfs_inode",
    "tmpfs": "shmem_inode_info",
}


def last_lines(run: Recording) -> dict[int, dict[str, Any]]:
    """The last line of each lock, which is the one that holds."""
    return {line["lock_id"]: line for line in run.lines("lock")}


def waits_by_class(run: Recording) -> Counter[str]:
    """The workload's waits by kind and class of lock."""
    locks = last_lines(run)
    waits: Counter[str] = Counter()
    for row in run.table("lock_wait"):
        if row["in_workload"]:
            lock = locks[int(row["lock_id"])]
            waits[f"{lock['kind']} {lock['name']}"] += int(row["count"])
    return waits


def storm(
    out: Path, words: Sequence[str | Path], met: Callable[[Recording], bool], wanted: str = SLEEPING
) -> Recording:
    """Record a program's fight for locks; again until it was for those that are to be named."""
    out.mkdir(exist_ok=True)
    program, *rest = words
    end = time.monotonic() + MEET_S
    for attempt in count():
        with (
            fresh_cgroup() as group,
            recording(out / str(attempt), "--collect", "locks", "--cgroup", str(group)) as run,
        ):
            fight(out, group, Path(program), rest, ENOUGH, wanted)
        if met(run):
            return run
        assert time.monotonic() < end, f"nothing was tested: {waits_by_class(run)}"
    return run


def test_pipe_mutex_is_named(tmp_path: Path) -> None:
    program = compile_program("pipe_storm", tmp_path)

    def of_pipes(run: Recording) -> Counter[str]:
        """Names of the mutexes that the storm waited for on its way into a pipe, by waits."""
        paths = {stack["stack_id"] for stack in run.lines("stack") if "pipe_" in " ".join(stack["frames"])}
        locks = last_lines(run)
        found: Counter[str] = Counter()
        for row in run.table("lock_wait"):
            lock = locks[int(row["lock_id"])]
            if row["in_workload"] and int(row["stack_id"]) in paths and lock["kind"] == "mutex":
                found[str(lock["name"])] += int(row["count"])
        return found

    run = storm(tmp_path, [program, "2", "2", "0", "20000"], lambda run: bool(of_pipes(run)))
    mutexes = of_pipes(run)
    assert max(mutexes, key=mutexes.__getitem__) == "pipe_inode_info.mutex", mutexes
    named = [lock for lock in last_lines(run).values() if lock["name"] == "pipe_inode_info.mutex"]
    # It is kmalloc'ed: nothing but the call path can tell.
    assert {lock["named_by"] for lock in named} == {"call path"}
    assert {lock["type"] for lock in named} == {"pipe_inode_info"}
    assert all(lock["slab"].startswith("kmalloc-") and lock["ino"] is None for lock in named)


def test_mmap_lock_is_named(tmp_path: Path) -> None:
    program = compile_program("mmap_storm", tmp_path)
    with (
        recording(tmp_path / "out", "--collect", "locks") as run,
        subprocess.Popen([program, "8"]) as child,
    ):
        until_most_wait(child.pid)
        child.send_signal(signal.SIGKILL)
    named = [lock for lock in last_lines(run).values() if lock["name"] == "mm_struct.mmap_lock"]
    assert named, last_lines(run)
    assert {(lock["kind"], lock["type"], lock["member"], lock["named_by"]) for lock in named} == {
        ("rwsem", "mm_struct", "mmap_lock", "slab")
    }


def rows_of_spinlocks(run: Recording) -> int:
    """How many of the locks that were waited for are spinlocks."""
    return sum(lock["kind"] == "spinlock" for lock in last_lines(run).values())


def test_run_queue_locks_are_named_as_per_cpu(tmp_path: Path) -> None:
    program = compile_program("pipe_storm", tmp_path)

    def queues(run: Recording) -> list[dict[str, Any]]:
        return [lock for lock in last_lines(run).values() if lock["name"] == "runqueues.__lock"]

    def met(run: Recording) -> bool:
        # Guests with test-and-set spinlocks (virt_spin_lock) show no wait for any: there is nothing to name.
        return bool(queues(run)) or (INSIDE and not rows_of_spinlocks(run))

    words: list[str | Path] = [program, "8", "8", "0", "4000" if INSIDE else "10000"]
    run = storm(tmp_path, words, met, SLEEPING if INSIDE else SPINNING)
    if not queues(run):
        return
    assert 1 <= len(queues(run)) <= (os.cpu_count() or 1)
    assert {(lock["kind"], lock["named_by"], lock["type"]) for lock in queues(run)} == {
        ("spinlock", "percpu", "rq")
    }


@pytest.mark.parametrize("name", [*MAKE, "tmpfs"])
def test_inode_locks_have_the_number_that_stat_gives(tmp_path: Path, name: str) -> None:
    program = compile_program("create_storm", tmp_path)
    if name == "tmpfs":
        with tmpfs(tmp_path / "mnt", "64M") as mount:
            inode_locks(tmp_path, mount, name, program)
        return
    command, size_bytes = MAKE[name]
    with loop_disk(tmp_path / "image", size_bytes) as disk:
        subprocess.run([*command, disk.path], check=True)
        with mounted(disk.path, tmp_path / "mnt") as mount:
            inode_locks(tmp_path, mount, name, program)


def inode_locks(tmp_path: Path, mount: Path, kind: str, program: Path) -> None:
    """Create and delete in one directory: only its lock is fought for."""
    folder = mount / "a" / "b"
    folder.mkdir(parents=True)
    (mount / "other").mkdir()
    dev = blockdev.filesystem_number(mount)

    def fought_for(run: Recording) -> list[dict[str, Any]]:
        locks = last_lines(run)
        ids = {int(row["lock_id"]) for row in run.table("lock_wait") if row["in_workload"]}
        return [
            locks[one] for one in ids if locks[one]["name"] == "inode.i_rwsem" and locks[one]["dev"] == dev
        ]

    words: list[str | Path] = [program, folder, "6", "300" if INSIDE else "1000"]
    run = storm(tmp_path / "out", words, lambda run: bool(fought_for(run)))
    inode = folder.stat().st_ino
    rwsems = fought_for(run)
    assert {lock["ino"] for lock in rwsems} == {inode}
    assert {(lock["kind"], lock["type"], lock["named_by"], lock["inodes"]) for lock in rwsems} == {
        ("rwsem", INODE_STRUCT[kind], "slab", 1)
    }
    assert rwsems[0]["member"].endswith(".i_rwsem")
    wanted = paths.inodes_of_locks(run.out / "lock.jsonl", [dev])
    assert inode in wanted
    assert paths.find(mount, wanted).paths[inode] == "a/b"


@pytest.mark.parametrize("name", MAKE)
def test_file_system_locks_are_named(tmp_path: Path, name: str) -> None:
    program = compile_program("create_storm", tmp_path)
    command, size_bytes = MAKE[name]
    with loop_disk(tmp_path / "image", size_bytes) as disk:
        subprocess.run([*command, disk.path], check=True)
        with mounted(disk.path, tmp_path / "mnt") as mount:

            def met(run: Recording) -> bool:
                return bool({lock["name"] for lock in last_lines(run).values()} & SYNC_CLASSES[name])

            words: list[str | Path] = [program, mount, "6", "60" if INSIDE else "100", "sync"]
            run = storm(tmp_path / "out", words, met)
    # XFS's buffers are locked by semaphores, which begin with a spinlock: its name is not theirs.
    assert {key for key in waits_by_class(run) if key.startswith("semaphore xfs_")} <= {
        "semaphore xfs_buf.b_sema"
    }
    # Locks in objects of its own slabs have names. What is kmalloc'ed, or per CPU, may be unknown: the call
    # path has to tell what it is, and may not.
    locks, waits = last_lines(run), waits_by_class(run)
    for lock in locks.values():
        slab = lock["slab"] or ""
        if slab.startswith((f"{name}_", "jbd2_")):
            assert lock["name"], lock
    # And one of another file system would be wrong.
    others = {
        "ext4": ("xfs_", "xlog", "btrfs_"),
        "xfs": ("btrfs_", "extent_buffer"),
        "btrfs": ("xfs_", "xlog"),
    }
    assert not [key for key in waits if key.split()[1].startswith(others[name])], waits


@contextmanager
def on_cpu(number: int) -> Iterator[None]:
    """Run on one CPU: what was freed last there is given out first."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {number})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def test_lock_memory_of_several_inodes_counts_them(tmp_path: Path) -> None:
    program = compile_program("create_storm", tmp_path)
    end = time.monotonic() + MEET_S
    for attempt in count():
        out = tmp_path / str(attempt)
        out.mkdir()
        inodes, locks = inodes_in_turn(out, program)
        assert {lock["ino"] for lock in locks} <= set(inodes)
        # Each file is counted at one place only: as its first inode or as a later one.
        counted = sum(lock["inodes"] for lock in locks)
        assert len(locks) <= counted <= len(inodes)
        # What was freed is given out again, unless somebody else took it or it was free too late.
        if len(locks) < counted:
            break
        assert time.monotonic() < end, "no place had two inodes: nothing was tested"


def inodes_in_turn(folder: Path, program: Path) -> tuple[list[int], list[dict[str, Any]]]:
    """Files that are fought for, each removed before the next is made: inodes, and locks of the fights."""
    cpus, inodes = os.sched_getaffinity(0), []
    with tmpfs(folder / "mnt", "64M") as mount:  # never gives a number twice
        dev = blockdev.filesystem_number(mount)
        with (
            fresh_cgroup() as group,
            recording(folder / "out", "--collect", "locks", "--cgroup", str(group)) as run,
        ):
            for turn in range(5):
                file = mount / str(turn)
                with on_cpu(min(cpus)):
                    file.write_text("")
                inodes.append(file.stat().st_ino)
                fight(folder, group, program, [file, "6", "100" if INSIDE else "200", "write"], enough=1)
                with on_cpu(min(cpus)):
                    file.unlink()
                    time.sleep(0.1)  # an RCU grace period, and it is free
    locks = last_lines(run).values()
    return inodes, [lock for lock in locks if lock["name"] == "inode.i_rwsem" and lock["dev"] == dev]


def test_lock_names_come_with_their_source(tmp_path: Path) -> None:
    program = compile_program("rename_storm", tmp_path)
    (tmp_path / "files").mkdir()
    words: list[str | Path] = [program, tmp_path / "files", "6", "400" if INSIDE else "1000"]
    run = storm(
        tmp_path / "out",
        words,
        lambda run: "mutex super_block.s_vfs_rename_mutex" in waits_by_class(run),
    )
    for lock in run.lines("lock"):
        assert (lock["name"] is None) == (lock["named_by"] is None)
        assert lock["named_by"] in (None, "symbol", "percpu", "slab", "call path")
        assert (lock["ino"] is None) == (lock["dev"] is None) == (lock["inodes"] is None)
        assert lock["address"] is None
        if lock["named_by"] in ("slab", "call path"):
            assert lock["slab"]
            assert lock["type"]
            assert lock["member"]
    # Each lock in the waits has a line.
    assert {int(row["lock_id"]) for row in run.table("lock_wait")} <= set(last_lines(run))
