# SPDX-License-Identifier: BSD-2-Clause
"""The block source on real file systems: against the kernel's counters, and against where the files lie."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.loop_disk import (
    MIB,
    SECTOR_BYTES,
    Areas,
    LoopDisk,
    assert_equals_diskstats,
    btrfs_chunks,
    extents,
    loop_disk,
    mounted,
    on_device,
    sectors_of,
    tmpfs,
)
from tests.collectors.recording import needs_btf, read_table, recording
from tests.marks import needs_root
from workloads import filesystems
from workloads.filesystems import layout

pytestmark = [needs_root, needs_btf]

BLOCK_BYTES = 4096
KNOWN_BYTES = 3 * MIB + 1000  # its last block is written whole
# Nothing is left for the kernel to initialise behind the test's back.
LAZY_OFF = "lazy_itable_init=0,lazy_journal_init=0"
MKFS = {
    "ext2": ["mkfs.ext2", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0"],
    "ext3": ["mkfs.ext3", "-q", "-F", "-b", "4096", "-E", LAZY_OFF],
    "ext4": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", LAZY_OFF],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
    "reiserfs": ["mkfs.reiserfs", "-q", "-f", "-f"],
    "jfs": ["mkfs.jfs", "-q"],
    "f2fs": ["mkfs.f2fs", "-q", "-f"],
    "nilfs2": ["mkfs.nilfs2", "-q"],
}
# A tail packed into the tree is metadata; no helper of mount may start a cleaner behind our back.
MOUNT = {"reiserfs": ["-o", "notail"], "nilfs2": ["-i", "-t", "nilfs2"]}
# They write changed blocks somewhere else, so where a file lies now says nothing about what was there before.
LOG_STRUCTURED = ("f2fs", "nilfs2")
HERE = sorted(fs for fs in MKFS if filesystems.kernel_has(fs))
QUICK = ("btrfs", "xfs")  # with ext4 in memory, below: one of each way to tell metadata from data


def write_tree(folder: Path) -> None:
    """Files from nothing to 300 kB in 20 directories."""
    rng = np.random.default_rng(4)
    for i in range(20):
        (folder / f"d{i}").mkdir(parents=True)
        for j in range(10):
            size = int(rng.choice([0, 1, 3000, 5000, 40_000, 300_000]))
            (folder / f"d{i}" / f"f{j}").write_bytes(rng.bytes(size))


def write_known(path: Path) -> None:
    """A file through the page cache, synced at the end of it."""
    with path.open("wb") as file:
        file.write(os.urandom(KNOWN_BYTES))
        file.flush()
        os.fsync(file.fileno())


def fio(path: Path, *words: str) -> int:
    """Direct random reads and writes of one file, synced every 16 writes. Returns how many bytes."""
    done = subprocess.run(
        ["fio", "--output-format=json", "--name=direct", f"--filename={path}", "--ioengine=libaio",
         "--iodepth=8", "--direct=1", "--rw=randrw", "--bs=4k", "--number_ios=1500", "--fsync=16",
         "--fallocate=none", *words],
        check=True, capture_output=True,
    )  # fmt: skip
    (job,) = json.loads(done.stdout)["jobs"]
    return sum(int(job[op]["io_bytes"]) for op in ("read", "write"))


class Mixed:
    """A recording of a mixed workload on a fresh file system, and what is known about its files."""

    def __init__(self, tmp_path: Path, fs: str, disk: LoopDisk) -> None:
        self.fs = fs
        subprocess.run([*MKFS[fs], disk.path], check=True, capture_output=True)
        write_tree(tmp_path / "tree")
        before_start = disk.idle_stat()
        # Mounting and unmounting are inside: before and after them nobody writes behind our back.
        with recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run:
            before = disk.stat()
            assert before == before_start
            with mounted(disk.path, tmp_path / "mnt", *MOUNT.get(fs, [])) as mnt:
                shutil.copytree(tmp_path / "tree", mnt / "tree")
                os.sync()
                write_known(mnt / "known")
                self.known_ino = (mnt / "known").stat().st_ino
                self.known = extents(mnt / "known")
                # Btrfs would write each change of it somewhere else.
                (mnt / "direct").touch()
                if fs == "btrfs":
                    subprocess.run(["chattr", "+C", mnt / "direct"], check=True)
                (mnt / "direct").write_bytes(bytes(16 * MIB))
                os.sync()
            with mounted(disk.path, mnt, *MOUNT.get(fs, [])):  # with cold caches
                shutil.copytree(mnt / "tree", tmp_path / "back")
                assert len((mnt / "known").read_bytes()) == KNOWN_BYTES
                self.direct_bytes = fio(mnt / "direct")
                files = [path for path in mnt.rglob("*") if path.is_file()]
                self.direct = extents(mnt / "direct")
                kind = filesystems.load(fs).kernel_type
                self.journal = [
                    (start * SECTOR_BYTES, end * SECTOR_BYTES)
                    for start, end in layout.read_journal(kind, str(disk.path))
                ]
                self.files = [part for path in files for part in extents(path)]
                if fs == "btrfs":
                    chunks = btrfs_chunks(disk.path)
                    self.known, self.direct, self.files = (
                        on_device(parts, chunks) for parts in (self.known, self.direct, self.files)
                    )
                shutil.rmtree(mnt / "tree")
                os.sync()
                self.trimmed = (
                    subprocess.run(["fstrim", mnt], check=False, capture_output=True).returncode == 0
                )
            after = disk.idle_stat()
        assert disk.stat() == after
        self.merges = (disk.sysfs / "queue/nomerges").read_text() == "0\n"
        self.run, self.before, self.after = run, before, after
        header, self.table = read_table(run.out / "block.rec")
        self.ops = {name: int(number) for number, name in header["enums"]["block_op"].items()}
        self.classes = {name: int(number) for number, name in header["enums"]["block_class"].items()}

    def rows(self, mask: Any) -> Any:
        return self.table[mask]


def check_counts(mixed: Mixed) -> None:
    """Equal to the kernel's, and not because there was nothing."""
    assert_equals_diskstats(mixed.run, mixed.before, mixed.after)
    changed = {name: mixed.after[name] - mixed.before[name] for name in mixed.after}
    assert changed["read_requests"] > 500
    assert changed["write_requests"] > 500
    # Btrfs merges by itself, where CPUs are slow; a loop device may be told not to merge (5.10).
    if mixed.fs != "btrfs" and mixed.merges:
        assert changed["write_merges"] + changed["read_merges"] > 0
    if mixed.fs != "jfs":  # which asks for none but as bios without data, counted apart
        assert changed["flush_requests"] > 10
    if mixed.trimmed:
        assert changed["discard_requests"] > 0


def check_times(mixed: Mixed) -> None:
    """In order, and inside the recording."""
    table = mixed.table
    seen = table[table["complete_ns"] > 0]
    assert len(seen) + mixed.run.source("block")["notes"]["end not seen (no latency)"] == len(table)
    assert np.all(table["queue_ns"] <= table["issue_ns"])
    assert np.all(seen["issue_ns"] < seen["complete_ns"])
    assert np.all(table["queue_ns"] > mixed.run.ready["monotonic_ns"])
    assert np.all(seen["complete_ns"] < mixed.run.stopped_ns)


def check_classes(mixed: Mixed) -> None:
    """By where the requests go on the disk: files' data is data, all else is not."""
    io = mixed.rows(np.isin(mixed.table["op"], [mixed.ops["read"], mixed.ops["write"]]))
    # mount(8) and btrfs(8) read the device themselves, anywhere, to learn what is on it: can't be known.
    unknown = io["class"] == mixed.classes["unknown"]
    # Pages of jfs's log belong to no file: analysis knows them by their place, which is the tools' word.
    if mixed.journal:
        unknown &= Areas(mixed.journal).holds(io) != 1
    assert np.all(io["op"][unknown] == mixed.ops["read"])
    assert set(io["comm"][unknown]) <= {b"mount", b"btrfs"}
    io = io[io["class"] != mixed.classes["unknown"]]
    holds = Areas(mixed.files).holds(io)
    data = io["class"] == mixed.classes["data"]
    assert np.all(holds != -1), "a request spans a file and something else"
    assert np.array_equal(data, holds == 1), io[data != (holds == 1)]
    assert np.all(data | (io["class"] == mixed.classes["metadata"]))
    assert np.all(io["ino"][~data] == 0)
    assert data.sum() > 1000
    # What has no metadata to speak of would not have been a file system: directories and inodes at least.
    assert (~data).sum() > 20


def check_known_file(mixed: Mixed, ops: tuple[str, ...] = ("write", "read")) -> None:
    """The file that went through the page cache: each byte written once, and read, under its inode."""
    io = mixed.rows(mixed.table["ino"] == mixed.known_ino)
    blocks = -(-KNOWN_BYTES // BLOCK_BYTES)
    for op in ops:
        rows = io[io["op"] == mixed.ops[op]]
        assert len(sectors_of(rows)) * SECTOR_BYTES == blocks * BLOCK_BYTES, op
        if op == "write":  # the kernel may give up pages that are read ahead, and read them again
            assert int(rows["bytes"].sum()) == blocks * BLOCK_BYTES
        assert np.all(Areas(mixed.known).holds(rows) == 1)
        assert np.all(rows["class"] == mixed.classes["data"])


def check_direct_file(mixed: Mixed) -> None:
    """Direct I/O is data of nobody's pages, in the file it was asked for."""
    rows = mixed.rows(mixed.table["comm"] == b"fio")
    io = rows[np.isin(rows["op"], [mixed.ops["read"], mixed.ops["write"]])]
    direct = io[(io["class"] == mixed.classes["data"]) & (io["ino"] == 0)]
    assert int(direct["bytes"].sum()) == mixed.direct_bytes > 0
    assert np.all(Areas(mixed.direct).holds(direct) == 1)


@pytest.mark.parametrize(
    "fs", [fs if fs in QUICK else pytest.param(fs, marks=pytest.mark.long) for fs in HERE]
)
def test_mixed_workload_matches_the_kernels_disk_statistics(tmp_path: Path, fs: str) -> None:
    with loop_disk(tmp_path / "image", 512 * MIB, "--direct-io=on") as disk:
        mixed = Mixed(tmp_path, fs, disk)
    check_counts(mixed)
    check_times(mixed)
    if fs in LOG_STRUCTURED:
        # A write of nilfs2 is a stretch of its log, with the pages of many files behind its summary.
        check_known_file(mixed, ("write", "read") if fs == "f2fs" else ("read",))
        metadata = mixed.table["class"] == mixed.classes["metadata"]
        assert metadata.sum() > 20
        assert np.all(mixed.table["ino"][metadata] == 0)
        return
    check_classes(mixed)
    check_known_file(mixed)
    check_direct_file(mixed)


def test_mixed_workload_in_memory_matches_disk_statistics(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "ram", "600M") as ram, loop_disk(ram / "image", 512 * MIB) as disk:
        mixed = Mixed(tmp_path, "ext4", disk)
        check_counts(mixed)
        check_times(mixed)
        check_classes(mixed)
