# SPDX-License-Identifier: BSD-2-Clause
"""Loop devices for the block tests: /sys/block/X/stat before and after, and the extents of files (FIEMAP)."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.collectors.recording import Recording, read_table

SECTOR_BYTES = 512
MIB = 1 << 20

FS_IOC_FIEMAP = 0xC020660B
FIBMAP, FIGETBSZ = 1, 2
BLKPG, BLKPG_ADD_PARTITION, BLKPG_DEL_PARTITION = 0x1269, 1, 2
FIEMAP_FLAG_SYNC = 1
FIEMAP_EXTENT_DATA_INLINE = 0x200

# /sys/block/X/stat, in order (Documentation/block/stat.rst).
STAT_FIELDS = (
    "read_requests", "read_merges", "read_sectors", "read_ms",
    "write_requests", "write_merges", "write_sectors", "write_ms",
    "in_flight", "busy_ms", "queue_ms",
    "discard_requests", "discard_merges", "discard_sectors", "discard_ms",
    "flush_requests", "flush_ms",
)  # fmt: skip


@dataclass(frozen=True)
class LoopDisk:
    """A loop device attached by the test."""

    path: Path
    backing: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def sysfs(self) -> Path:
        return Path("/sys/block") / self.name

    def stat(self) -> dict[str, int]:
        """Return the counters of /sys/block/X/stat so far."""
        values = (self.sysfs / "stat").read_text().split()
        return dict(zip(STAT_FIELDS, map(int, values), strict=False))

    def idle_stat(self) -> dict[str, int]:
        """Return stat(), once no request is in flight and no counter has changed for 0.2 s."""
        deadline = time.monotonic() + 30
        before = self.stat()
        while True:
            time.sleep(0.2)
            after = self.stat()
            if after == before and after["in_flight"] == 0:
                return after
            assert time.monotonic() < deadline, "the disk does not become idle"
            before = after

    def set_scheduler(self, name: str) -> None:
        (self.sysfs / "queue" / "scheduler").write_text(name)

    def schedulers(self) -> list[str]:
        return (self.sysfs / "queue" / "scheduler").read_text().replace("[", "").replace("]", "").split()


@contextmanager
def loop_disk(backing: Path, size_bytes: int, *options: str) -> Iterator[LoopDisk]:
    """A loop device on a new sparse file, whose requests are merged (a number keeps its user's setting)."""
    with backing.open("wb") as file:
        file.truncate(size_bytes)
    try:
        with attached(backing, *options) as path:
            disk = LoopDisk(path, backing)
            (disk.sysfs / "queue/nomerges").write_text("0")
            limit = disk.sysfs / "queue/max_sectors_kb"
            most_kb = limit.read_text()
            try:
                yield disk
            finally:
                limit.write_text(most_kb)  # the next test's requests are split by its own limit, not by ours
    finally:
        backing.unlink()


@contextmanager
def attached(image: Path, *options: str) -> Iterator[Path]:
    """Attach a loop device to a file; detach it after the block."""
    try:
        attach = ["losetup", "--find", "--show", *options, str(image)]
        disk = Path(subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip())
        drop_partitions(disk)
        yield disk
    finally:
        show = ["losetup", "--list", "--noheadings", "--output", "NAME", "--associated", str(image)]
        for path in subprocess.run(show, check=True, capture_output=True, text=True).stdout.split():
            subprocess.run(["losetup", "--detach", path], check=True)


@contextmanager
def mounted(device: str | Path, folder: Path, *options: str) -> Iterator[Path]:
    """Mount the device on the folder, which is made; unmount it after the block."""
    folder.mkdir(exist_ok=True)
    try:
        subprocess.run(["mount", *options, device, folder], check=True)
        yield folder
    finally:
        if os.path.ismount(folder):
            subprocess.run(["umount", folder], check=True)


@contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    """Mount a new tmpfs of this size on the folder."""
    with mounted("none", folder, "-t", "tmpfs", "-o", f"size={size}"):
        yield folder


def add_partition(device: str, number: int, first_sector: int, sectors: int) -> None:
    """Add a partition by BLKPG: small kernels read no partition tables."""
    _blkpg(device, BLKPG_ADD_PARTITION, number, first_sector * SECTOR_BYTES, sectors * SECTOR_BYTES)


def delete_partition(device: str, number: int) -> None:
    """Delete a partition by BLKPG. Waits while it is busy: a new mount namespace copies all mounts."""
    deadline = time.monotonic() + 10
    while True:
        try:
            _blkpg(device, BLKPG_DEL_PARTITION, number, 0, 0)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def drop_partitions(disk: Path) -> None:
    """Delete all partitions of a loop device that was just attached: those of the number's former user.

    A detach leaves partitions made by BLKPG, without --partscan always and with it when a scan by another
    process (libblkid opens every partition) is just reading one (__loop_clr_fd, drivers/block/loop.c).
    """
    for part in sorted(Path("/sys/block", disk.name).glob(f"{disk.name}p*")):
        delete_partition(str(disk), int((part / "partition").read_text()))


def _blkpg(device: str, op: int, number: int, start_bytes: int, length_bytes: int) -> None:
    partition = struct.pack("=qqi64s64s4x", start_bytes, length_bytes, number, b"", b"")
    data = ctypes.create_string_buffer(partition, len(partition))
    with open(device, "rb") as disk:
        fcntl.ioctl(disk, BLKPG, struct.pack("@iiiP", op, 0, len(partition), ctypes.addressof(data)))


def rows_of(run: Recording, op: str) -> Any:
    """Return the rows of block.rec with this operation, by issue time."""
    header, table = read_table(run.out / "block.rec")
    number = next(int(key) for key, name in header["enums"]["block_op"].items() if name == op)
    rows = table[table["op"] == number]
    return rows[np.argsort(rows["issue_ns"], kind="stable")]


def assert_equals_diskstats(run: Recording, before: dict[str, int], after: dict[str, int]) -> None:
    """Compare requests, bytes and merges in block.rec with the kernel's counters: they must be equal."""
    counted = {name: after[name] - before[name] for name in STAT_FIELDS}
    state = run.source("block")
    writes = np.concatenate([rows_of(run, op) for op in ("write", "write_zeroes")])
    mine = {
        # The kernel counts a bio that only asks for a flush as a write of no bytes; the disk sees none.
        "write_requests": len(writes) + state["notes"].get("flush-only bios", 0),
        "write_merges": int(writes["merges"].sum()),
        "write_sectors": int(writes["bytes"].sum(dtype=np.int64)) // SECTOR_BYTES,
        "flush_requests": len(rows_of(run, "flush")),
    }
    for op in ("read", "discard"):
        rows = rows_of(run, op)
        mine[f"{op}_requests"] = len(rows)
        mine[f"{op}_merges"] = int(rows["merges"].sum())
        mine[f"{op}_sectors"] = int(rows["bytes"].sum(dtype=np.int64)) // SECTOR_BYTES
    assert mine == {name: counted[name] for name in mine}
    assert sum(state["lost"].values()) == 0, state["lost"]
    assert state["seen"] == state["recorded"] == len(run.table("block"))


def sectors_of(requests: Iterable[Any]) -> set[int]:
    """Return the set of sectors of these requests (rows of block.rec, or the report's).

    A set, as the kernel reads an evicted page again, and may write a page before it is full.
    """
    ranges = ((int(request["sector"]), int(request["bytes"])) for request in requests)
    return {sector for first, size in ranges for sector in range(first, first + size // SECTOR_BYTES)}


def extents(path: Path) -> list[tuple[int, int]]:
    """Return a file's extents on the device by FIEMAP: (first byte, byte after the last)."""
    count = 8192
    buffer = bytearray(
        struct.pack("=QQLLLL", 0, 2**64 - 1, FIEMAP_FLAG_SYNC, 0, count, 0) + bytes(56 * count)
    )
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, FS_IOC_FIEMAP, buffer)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return _blocks(file)
    mapped = struct.unpack_from("=L", buffer, 20)[0]
    assert mapped < count, "the file has more extents than the buffer"
    result = []
    for at in range(32, 32 + 56 * mapped, 56):
        _, physical, length, _, _, flags = struct.unpack_from("=QQQQQL", buffer, at)
        if not flags & FIEMAP_EXTENT_DATA_INLINE:
            result.append((physical, physical + length))
    return result


def _blocks(file: Any) -> list[tuple[int, int]]:
    """Return a file's extents by FIBMAP, one per block; 0 is a hole, or a tail packed into the tree."""
    (block_bytes,) = struct.unpack("=i", fcntl.ioctl(file, FIGETBSZ, bytes(4)))
    result: list[tuple[int, int]] = []
    for number in range(-(-os.fstat(file.fileno()).st_size // block_bytes)):
        (block,) = struct.unpack("=i", fcntl.ioctl(file, FIBMAP, struct.pack("=i", number)))
        if block:
            result.append((block * block_bytes, (block + 1) * block_bytes))
    return result


def btrfs_chunks(device: Path) -> list[tuple[int, int, int]]:
    """Return btrfs's data chunks: (first logical byte, byte after the last, byte on the device).

    FIEMAP on btrfs returns logical addresses, which on_device() translates by the chunks.
    """
    command = ["btrfs", "inspect-internal", "dump-tree", "-t", "chunk", str(device)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    chunks = re.findall(
        r"CHUNK_ITEM (\d+)\).*?length (\d+) .*?type (\S+).*?stripe 0 devid 1 offset (\d+)", text, re.DOTALL
    )
    return [(int(a), int(a) + int(length), int(to)) for a, length, kind, to in chunks if "DATA" in kind]


def on_device(logical: list[tuple[int, int]], chunks: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return extents in btrfs's logical addresses as bytes on the device."""
    result = []
    for start, end in logical:
        (chunk,) = [chunk for chunk in chunks if chunk[0] <= start < chunk[1]]
        assert end <= chunk[1]
        result.append((start - chunk[0] + chunk[2], end - chunk[0] + chunk[2]))
    return result


class Areas:
    """Byte ranges of a disk that belong to files, sorted and joined."""

    def __init__(self, parts: list[tuple[int, int]]) -> None:
        joined: list[list[int]] = []
        for start, end in sorted(parts):
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(end, joined[-1][1])
            else:
                joined.append([start, end])
        self.starts = np.array([start for start, _ in joined], dtype=np.int64)
        self.ends = np.array([end for _, end in joined], dtype=np.int64)

    def holds(self, rows: Any) -> Any:
        """Return, per request, 1 if it lies in files, 0 if outside of them, -1 if in part."""
        start = rows["sector"].astype(np.int64) * SECTOR_BYTES
        end = start + rows["bytes"]
        at = np.searchsorted(self.starts, start, side="right") - 1
        inside = (at >= 0) & (end <= self.ends[at])
        after = np.searchsorted(self.starts, end, side="left") - 1
        outside = (after == at) & ((at < 0) | (self.ends[at] <= start))
        return np.where(inside, 1, np.where(outside, 0, -1))
