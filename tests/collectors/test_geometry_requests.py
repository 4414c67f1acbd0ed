# SPDX-License-Identifier: BSD-2-Clause
"""Do requests go where the geometry says, by the flags that the file system itself set, and by its own maps?

The raw recording is looked at, whose classes come from flags and from whose pages a request carries: no
geometry is in them. A journal's commits are known by themselves: jbd2's writes with FUA or a flush.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.loop_disk import (
    MIB,
    SECTOR_BYTES,
    Areas,
    btrfs_chunks,
    extents,
    loop_disk,
    mounted,
    on_device,
    sectors_of,
)
from tests.collectors.recording import needs_btf, read_table, recording
from tests.collectors.test_block import LAZY_OFF, LOG_STRUCTURED, MOUNT, write_tree
from tests.collectors.test_block import MKFS as MKFS_ALL
from tests.marks import needs_root
from workloads import filesystems
from workloads.filesystems import layout
from workloads.filesystems.layout.layout import Part

pytestmark = [needs_root, needs_btf]

META, FUA, PREFLUSH = 2, 4, 8
MKFS = {**MKFS_ALL, "ext4": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-g", "8192", "-E", LAZY_OFF]}
HERE = sorted(fs for fs in MKFS if filesystems.kernel_has(fs))
QUICK = ("btrfs", "ext4", "xfs")
Mask = npt.NDArray[np.bool_]


class Traced:
    """What a small workload did to the disk, and what the disk's geometry was afterwards."""

    def __init__(self, folder: Path, fs: str) -> None:
        self.fs = fs
        write_tree(folder / "tree")
        with loop_disk(folder / "image", 512 * MIB, "--direct-io=on") as disk:
            subprocess.run([*MKFS[fs], disk.path], check=True, capture_output=True)
            with recording(folder / "out", "--collect", "block", "--disk", disk.name) as run:
                options = MOUNT.get(fs, [])
                with mounted(disk.path, folder / "mnt", *options) as mnt:
                    for turn in range(3):
                        shutil.copytree(folder / "tree", mnt / f"tree{turn}")
                        os.sync()
                    self.known_ino = self._known(mnt / "known")
                    known = extents(mnt / "known")
                with mounted(disk.path, mnt, *options):
                    assert len((mnt / "known").read_bytes()) == 3 * MIB
                    for path in (mnt / "tree1/d0").iterdir():  # directories stay, to be told by their inodes
                        path.unlink()
                    os.sync()
                disk.idle_stat()
            self.known = on_device(known, btrfs_chunks(disk.path)) if fs == "btrfs" else known
            kind = filesystems.load(fs).kernel_type
            self.geometry, self.warnings = layout.read_layout(kind, [str(disk.path)])
            self.dev = Part.of(str(disk.path)).dev
            self.icheck = self._owners(str(disk.path), run.out) if fs.startswith("ext") else {}
        header, table = read_table(run.out / "block.rec")
        ops = {name: int(number) for number, name in header["enums"]["block_op"].items()}
        classes = {name: int(number) for number, name in header["enums"]["block_class"].items()}
        self.io = table[np.isin(table["op"], [ops["read"], ops["write"]])]
        self.write: Mask = self.io["op"] == ops["write"]
        self.meta: Mask = self.io["flags"] & META != 0
        self.class_ = {name: np.asarray(self.io["class"] == number) for name, number in classes.items()}

    @staticmethod
    def _known(path: Path) -> int:
        with path.open("wb") as file:
            file.write(os.urandom(3 * MIB))
            file.flush()
            os.fsync(file.fileno())
        return path.stat().st_ino

    @staticmethod
    def _owners(device: str, out: Path) -> dict[int, int]:
        """Of ext: which inode every written block belongs to now, as debugfs finds out from the inodes."""
        _, table = read_table(out / "block.rec")
        blocks = sorted({int(sector) // 8 for sector in table["sector"][table["bytes"] > 0]})
        text = subprocess.run(
            ["debugfs", "-R", f"icheck {' '.join(map(str, blocks))}", device],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        return {int(block): int(inode) for block, inode in re.findall(r"^(\d+)\t(\d+)$", text, re.MULTILINE)}

    def inside(self, *, kind: str = "", name: str = "") -> Mask:
        """Which requests lie wholly in the areas of a kind or a name."""
        parts = [
            (start * SECTOR_BYTES, end * SECTOR_BYTES)
            for area in self.geometry["areas"]
            if area["kind"] == kind or area["name"] == name
            for start, end in area["extents"]
        ]
        held: Mask = Areas(parts).holds(self.io) == 1 if parts else np.zeros(len(self.io), dtype=np.bool_)
        return held


def check_ext(traced: Traced) -> None:
    """The journal, the tables and bitmaps, and by debugfs whose the blocks in between are."""
    journal, metadata = traced.inside(kind="journal"), traced.inside(kind="metadata")
    # data of files, by debugfs: no block of a regular inode is in any of them
    owned = np.array([traced.icheck.get(int(sector) // 8, 0) for sector in traced.io["sector"]])
    assert set(owned[metadata].tolist()) <= {0, 7}  # 7: the inode that has the reserved descriptors
    assert set(owned[journal].tolist()) <= {8}
    assert np.all(journal[owned == 8]), "a block of the journal's inode is not in the journal's area"
    assert not np.any(traced.class_["data"] & (metadata | journal))
    # what is in neither, and not of a file or directory, would be a table or bitmap that is missing
    elsewhere = ~(journal | metadata) & traced.write & traced.meta
    assert np.all(owned[elsewhere] > 0)
    for name in ("inode tables", "bitmaps"):
        rows = traced.inside(name=name) & traced.write
        assert rows.sum() > 0, name
        # the flusher and sync write them through the block device: with META, or known by its pages
        assert np.all(traced.class_["metadata"][rows]), name
        assert traced.meta[rows].mean() > 0.9, name
    commit = traced.write & (traced.io["flags"] & (FUA | PREFLUSH) != 0)
    by_jbd2 = (
        np.array([comm.startswith(b"jbd2/") for comm in traced.io["comm"]], dtype=np.bool_) & traced.write
    )
    if traced.fs == "ext2":
        assert not journal.any()
        return
    assert journal.sum() >= 6
    # jbd2 flags all that it writes there, or (before Linux 6.6) nothing; at mount it is read without flags
    flagged = traced.meta[journal & traced.write]
    assert flagged.all() or not flagged.any()
    # its commits are all in the journal; what else it writes (a checkpoint's blocks) has no flush
    assert (by_jbd2 & commit).sum() >= 3
    assert np.all(journal[by_jbd2 & commit])
    writers = set(traced.io["comm"][journal & traced.write])
    assert all(comm.startswith(b"jbd2/") or comm in (b"umount", b"mount") for comm in writers), writers


def check_xfs(traced: Traced) -> None:
    """All that carries FUA is the log's, and all that is in the log is META."""
    log = traced.inside(name="log")
    assert log.sum() >= 6
    assert np.all(traced.meta[log])
    assert np.all(log[traced.write & (traced.io["flags"] & (FUA | PREFLUSH) != 0)])
    assert not np.any(traced.class_["data"] & (log | traced.inside(kind="metadata")))
    headers = traced.inside(name="headers of allocation groups")
    assert headers.sum() > 0
    assert np.all(traced.meta[headers])


def check_btrfs(traced: Traced) -> None:
    """Every META write in chunks of metadata or the superblocks, every data write in those of data."""
    metadata, data = traced.inside(kind="metadata"), traced.inside(kind="data")
    assert (traced.write & traced.meta).sum() > 20
    assert np.all(metadata[traced.write & traced.meta])
    assert np.all(data[traced.write & traced.class_["data"]])
    assert np.all((metadata | data)[traced.write])
    assert not np.any(traced.meta[data])
    # superblocks: FUA (and where there is no such thing, a flush) is theirs alone
    barrier = traced.write & (traced.io["flags"] & FUA != 0)
    assert np.all(traced.inside(name="superblocks")[barrier])


def check_others(traced: Traced) -> None:
    """What the recorder took for a file's data lies in no metadata area, and each named area is used."""
    assert not np.any(traced.class_["data"] & traced.inside(kind="metadata"))
    if traced.fs == "f2fs":
        for name in ("checkpoint", "segment information (SIT)", "node addresses (NAT)"):
            rows = traced.inside(name=name) & traced.write
            assert rows.sum() > 0, name
            assert np.all(traced.meta[rows]), name
    if traced.fs in ("jfs", "reiserfs"):
        assert traced.inside(kind="journal").sum() > 3


@pytest.mark.parametrize(
    "fs", [fs if fs in QUICK else pytest.param(fs, marks=pytest.mark.long) for fs in HERE]
)
def test_requests_lie_in_the_areas_of_the_layout(fs: str, tmp_path: Path) -> None:
    traced = Traced(tmp_path, fs)
    assert traced.warnings == []
    {"xfs": check_xfs, "btrfs": check_btrfs}.get(fs, check_ext if fs.startswith("ext") else check_others)(
        traced
    )
    # the file system's own map of one file: it lies where data may be
    rows: Any = traced.io[traced.io["ino"] == traced.known_ino]
    if fs not in LOG_STRUCTURED:
        for write in (True, False):
            mine = rows[traced.write[traced.io["ino"] == traced.known_ino] == write]
            assert len(sectors_of(mine)) * SECTOR_BYTES == 3 * MIB
        assert np.all(Areas(traced.known).holds(rows) == 1)
    closed = [
        (start * SECTOR_BYTES, end * SECTOR_BYTES)
        for area in traced.geometry["areas"]
        if area["kind"] not in ("data", "mixed")
        for start, end in area["extents"]
    ]
    assert np.all(Areas(closed).holds(rows) == 0)
    spans = [
        (s["start_sector"] * SECTOR_BYTES, s["end_sector"] * SECTOR_BYTES) for s in traced.geometry["spans"]
    ]
    by_fs = traced.io[~traced.class_["unknown"]]
    assert np.all(Areas(spans).holds(by_fs) == 1)
