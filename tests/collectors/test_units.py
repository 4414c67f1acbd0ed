# SPDX-License-Identifier: BSD-2-Clause
"""Requests and threads by cgroup: known bytes of known cgroups, and the kernel's io.stat where it is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.collectors.loop_disk import MIB, LoopDisk, loop_disk, mounted
from tests.collectors.recording import Recording, cgroup, enum_value, needs_btf, recording, run_inside
from tests.collectors.sessions import Job
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

ROOT_ID = 1  # of cgroup2's root directory, where kernel threads are
BLOCK = 4096


def bytes_by_cgroup(run: Recording, op: str) -> dict[int, int]:
    """Sum the bytes of one operation by cgroup."""
    rows, number = run.table("block"), enum_value(run.out / "block.rec", "block_op", op)
    rows = rows[rows["op"] == number]
    return {int(number): int(rows["bytes"][rows["cgroup"] == number].sum()) for number in set(rows["cgroup"])}


def copy(folder: Path, *words: str) -> None:
    """Run dd in a cgroup, to its end."""
    child = run_inside(folder, ["dd", "status=none", *words])
    assert child.wait(timeout=60) == 0


def number_of(folder: Path) -> int:
    return folder.stat().st_ino


def test_direct_bytes_are_summed_by_cgroup(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk, cgroup() as first, cgroup() as second:
        with recording(tmp_path / "out", "--disk", disk.name, "--collect", "block,threads") as run:
            copy(first, "if=/dev/zero", f"of={disk.path}", f"bs={BLOCK}", "count=300", "oflag=direct")
            copy(second, "if=/dev/zero", f"of={disk.path}", f"bs={BLOCK}", "count=77", "oflag=direct")
            copy(second, f"if={disk.path}", "of=/dev/null", f"bs={BLOCK}", "count=55", "iflag=direct")
        ids = [number_of(first), number_of(second)]
        written, read = bytes_by_cgroup(run, "write"), bytes_by_cgroup(run, "read")
    assert written == {ids[0]: 300 * BLOCK, ids[1]: 77 * BLOCK}
    assert read == {ids[1]: 55 * BLOCK}
    rows = run.table("block")
    assert set(rows["cgroup_from"]) == {enum_value(run.out / "block.rec", "block_cgroup_from", "task")}
    threads = [line for line in run.lines("thread") if line["comm"] == "dd"]
    assert sorted(line["cgroup"] for line in threads) == sorted([ids[0], ids[1], ids[1]])


def test_moved_thread_has_its_last_cgroup(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk, cgroup() as first, cgroup() as second:
        with recording(tmp_path / "out", "--disk", disk.name, "--collect", "threads") as run:
            child = run_inside(
                first, [sys.executable, "-S", "-c", "import time\nwhile True: time.sleep(0.01)"]
            )
            try:
                time.sleep(0.5)
                (second / "cgroup.procs").write_text(str(child.pid))
                time.sleep(0.5)
            finally:
                child.kill()
                child.wait()
        ids = {line["tid"]: line.get("cgroup") for line in run.lines("thread")}
        moved = [number for number in ids.values() if number in (number_of(first), number_of(second))]
        assert moved == [number_of(second)]


def test_kernel_threads_are_in_the_root(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk:
        with recording(tmp_path / "out", "--disk", disk.name, "--collect", "threads") as run:
            time.sleep(0.3)
        kernel = [line for line in run.lines("thread") if line["is_kernel_thread"] and "cgroup" in line]
    assert kernel
    assert {line["cgroup"] for line in kernel} == {ROOT_ID}


def test_watch_names_cgroups_after_their_death(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk", 64 * MIB) as disk, cgroup() as kept:
        job = Job("watch", tmp_path / "run", None, DEV=disk.name, SECS="4", COLLECT="block threads")
        job.until("watch")
        with cgroup() as ended:
            numbers = {number_of(kept): 70 * BLOCK, number_of(ended): 30 * BLOCK}
            names = {number_of(kept): f"/{kept.name}", number_of(ended): f"/{ended.name}"}
            copy(ended, "if=/dev/zero", f"of={disk.path}", f"bs={BLOCK}", "count=30", "oflag=direct")
            time.sleep(1.5)  # the tree is walked once a second
        copy(kept, "if=/dev/zero", f"of={disk.path}", f"bs={BLOCK}", "count=70", "oflag=direct")
        assert job.end() == 0, job.said
    lines = (job.run.path / "raw/units.jsonl").read_text().splitlines()
    named = {row["cgroup"]: row for row in map(json.loads, lines)}
    assert {number: named[number]["path"] for number in numbers} == names
    assert [named[number]["gone_ns"] is None for number in numbers] == [True, False]
    text = job.run.report()
    section = text[text.index("BY SERVICE AND CONTAINER") :]
    for size in numbers.values():
        assert f" {size / 1000:.0f} kB " in section


@contextmanager
def accounted_root(tmp_path: Path) -> Iterator[Path]:
    """Mount cgroup2, with the controllers by which the kernel gives write-back to a cgroup."""
    root = tmp_path / "cgroup2"
    root.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
    try:
        if not {"io", "memory"} <= set((root / "cgroup.controllers").read_text().split()):
            pytest.skip("cgroup2 has no io controller here: boot with cgroup_no_v1=all")
        (root / "cgroup.subtree_control").write_text("+io +memory")
        yield root
    finally:
        subprocess.run(["umount", root], check=True)


@contextmanager
def unit(root: Path, name: str) -> Iterator[Path]:
    """Make a cgroup below the root; removed after the block."""
    folder = root / f"{name}-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
    finally:
        deadline = time.monotonic() + 60
        while folder.is_dir():
            try:
                folder.rmdir()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def io_stat(folder: Path, disk: LoopDisk) -> dict[str, int]:
    """Return the kernel's sums of a cgroup for a disk."""
    dev = (disk.sysfs / "dev").read_text().strip()
    for line in (folder / "io.stat").read_text().splitlines():
        if line.startswith(f"{dev} "):
            return {key: int(value) for key, value in (word.split("=") for word in line.split()[1:])}
    return {}


def bytes_of_sync(run: Recording) -> int:
    """Sum the metadata that sync wrote itself."""
    rows, file = run.table("block"), run.out / "block.rec"
    is_task = rows["cgroup_from"] == enum_value(file, "block_cgroup_from", "task")
    is_metadata = rows["class"] == enum_value(file, "block_class", "metadata")
    return int(rows["bytes"][is_task & is_metadata & (rows["comm"] == b"sync")].sum())


@pytest.mark.parametrize("fs", ["ext4", "xfs", "btrfs"])
def test_bytes_by_cgroup_equal_io_stat(tmp_path: Path, fs: str) -> None:
    """Write-back, too, which a kernel thread submits: the bio's block cgroup names its owner."""
    with accounted_root(tmp_path) as root, loop_disk(tmp_path / "disk", 512 * MIB) as disk:
        force = ["-F"] if fs == "ext4" else ["-f"]
        subprocess.run([f"mkfs.{fs}", "-q", *force, disk.path], check=True)
        with (
            mounted(disk.path, tmp_path / "mnt") as folder,
            unit(root, "first") as first,
            unit(root, "second") as second,
        ):
            units = (first, second)
            before = {number_of(of): io_stat(of, disk) for of in units}
            with recording(tmp_path / "out", "--disk", disk.name, "--collect", "block") as run:
                copy(first, "if=/dev/zero", f"of={folder}/a", "bs=1M", "count=40")
                copy(second, "if=/dev/zero", f"of={folder}/b", "bs=1M", "count=24")
                copy(second, "if=/dev/zero", f"of={folder}/c", "bs=64k", "count=48", "oflag=direct")
                subprocess.run(["sync", "-f", folder], check=True)
                disk.idle_stat()
            after = {number_of(of): io_stat(of, disk) for of in units}
    written, read = bytes_by_cgroup(run, "write"), bytes_by_cgroup(run, "read")
    kept = {
        key: {number: after[number].get(key, 0) - before[number].get(key, 0) for number in after}
        for key in ("rbytes", "wbytes")
    }
    assert kept["rbytes"] == {number: read.get(number, 0) for number in after}
    # What a task writes itself is the task's: btrfs commits in sync, whose cgroup is the root. The kernel
    # counts the metadata for whoever made it dirty first.
    by_sync = bytes_of_sync(run) if fs == "btrfs" else 0
    missing = [kept["wbytes"][number] - written[number] for number in after]
    assert min(missing) >= 0 and sum(missing) <= by_sync, (missing, by_sync)
    assert min(written[number] for number in after) > 20 * MIB
    rows = run.table("block")
    by_bio = enum_value(run.out / "block.rec", "block_cgroup_from", "bio")
    assert rows["bytes"][rows["cgroup_from"] == by_bio].sum() > 60 * MIB
