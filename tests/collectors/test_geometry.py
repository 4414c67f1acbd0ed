# SPDX-License-Identifier: BSD-2-Clause
"""What lies where on a disk, against what other tools and the kernel say of the same file system.

The disks are attached read-only: whatever the code under test wrote would fail.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectors.host import blockdev
from collectors.trace import mounted_layout as of_mounted
from tests.collectors.loop_disk import MIB, add_partition, attached, delete_partition, mounted
from tests.marks import needs_root
from workloads import filesystems
from workloads.filesystems import layout
from workloads.filesystems.layout.layout import Area, Layout, Part, Span

SECTOR = 512
XFS_IOC_FSGEOMETRY_V1 = 0x80705864  # fs/xfs/libxfs/xfs_fs.h
Extents = list[tuple[int, int]]
OTHERS = {
    "f2fs": ["mkfs.f2fs", "-q", "-f"],
    "jfs": ["mkfs.jfs", "-q"],
    "reiserfs": ["mkfs.reiserfs", "-q", "-f", "-f"],
    "nilfs2": ["mkfs.nilfs2", "-q", "-f"],
    "vfat": ["mkfs.vfat", "-F", "32", "-I"],
    "exfat": ["mkfs.exfat"],
}
ALL = {
    "ext2": ["mkfs.ext2", "-q", "-F"],
    "ext3": ["mkfs.ext3", "-q", "-F"],
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
    **OTHERS,
}


def said(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, errors="replace").stdout


@contextmanager
def disk(image: Path, *options: str) -> Iterator[str]:
    """A loop device on the file."""
    with attached(image, *options) as path:
        yield str(path)


@contextmanager
def formatted(folder: Path, mkfs: list[str], size_bytes: int = 512 * MIB) -> Iterator[str]:
    """A read-only disk with a file system on it."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(size_bytes)
    with disk(image) as path:
        subprocess.run([*mkfs, path], check=True, capture_output=True)
    with disk(image, "--read-only") as path:
        yield path
    image.unlink()


def found(kind: str, *devices: str) -> dict[str, Any]:
    got, warnings = layout.read_layout(kind, devices)
    assert warnings == []
    check_sound(got)
    return got


def check_sound(got: dict[str, Any]) -> None:
    """As analysis needs it: in order, disjoint, and JSON."""
    text = json.dumps(got)
    assert len(text) < 2 << 20
    for span in got["spans"]:
        mine = [e for area in got["areas"] if area["dev"] == span["dev"] for e in area["extents"]]
        mine.sort()
        assert all(0 <= start < end for start, end in mine)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(mine)), mine


def area(got: dict[str, Any], name: str, dev: str = "") -> Extents:
    return [
        (start, end)
        for one in got["areas"]
        if one["name"] == name and (not dev or one["dev"] == dev)
        for start, end in one["extents"]
    ]


def merged(extents: Extents) -> Extents:
    joined: Extents = []
    for start, end in sorted(extents):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


_EXT = ["mkfs.ext4", "-q", "-F"]


@needs_root
@pytest.mark.parametrize(
    "mkfs",
    [
        ["mkfs.ext2", "-q", "-F"],
        ["mkfs.ext3", "-q", "-F"],
        _EXT,
        [*_EXT, "-b", "1024"],
        [*_EXT, "-O", "^sparse_super,^resize_inode"],
        [*_EXT, "-O", "sparse_super2,^resize_inode"],
        [*_EXT, "-O", "meta_bg,^resize_inode"],
        [*_EXT, "-b", "1024", "-N", "20000", "-O", "^flex_bg,^64bit"],
        [*_EXT, "-O", "bigalloc"],
        [*_EXT, "-g", "4096", "-O", "^has_journal"],
    ],
    ids=lambda words: " ".join(words[3:]) or words[0],
)
def test_ext_layout_equals_dumpe2fs(mkfs: list[str], tmp_path: Path) -> None:
    with formatted(tmp_path, mkfs) as device:
        got = found("ext4", device)
        text = said("dumpe2fs", device)
        header = said("dumpe2fs", "-h", device)
        blocks = said("debugfs", "-R", "blocks <8>", device).split() if "has_journal" in header else []
    block = int(re.findall(r"^Block size:\s+(\d+)", header, re.MULTILINE)[0]) // SECTOR
    expected: dict[str, Extents] = {
        "superblocks, descriptors": [],
        "bitmaps": [],
        "inode tables": [],
    }
    places = re.findall(
        r"((?:Primary|Backup) superblock|Group descriptors?|Reserved GDT blocks|Block bitmap|Inode bitmap"
        r"|Inode table) at (\d+)(?:-(\d+))?",
        text,
    )
    for what, first, last in places:
        name = "inode tables" if "table" in what else "bitmaps" if "bitmap" in what else next(iter(expected))
        expected[name].append((int(first) * block, (int(last or first) + 1) * block))
    for name, extents in expected.items():
        assert area(got, name) == merged(extents)
    # the journal: the blocks of inode 8, one by one
    journal = sorted(int(word) for word in blocks)
    assert area(got, "journal") == merged([(b * block, (b + 1) * block) for b in journal])
    (span,) = got["spans"]
    groups = re.findall(r"^Group (\d+): \(Blocks (\d+)-(\d+)\)", text, re.MULTILINE)
    for number, first, last in groups:
        start = span["first_group_sector"] + int(number) * span["group_sectors"]
        assert start == int(first) * block
        assert min(start + span["group_sectors"], span["end_sector"]) == (int(last) + 1) * block


@needs_root
@pytest.mark.parametrize("options", [[], ["-d", "agcount=7"], ["-s", "size=4096"], ["-b", "size=1024"]])
def test_xfs_layout_equals_xfs_db_and_the_kernel(options: list[str], tmp_path: Path) -> None:
    if not filesystems.kernel_has("xfs"):
        pytest.skip("this kernel has no xfs: use one with CONFIG_XFS_FS")
    with formatted(tmp_path, ["mkfs.xfs", "-q", "-f", *options]) as device:
        got = found("xfs", device)
        text = said("xfs_db", "-r", "-c", "sb 0", "-c", "p", device)
        sb = {
            key: int(value, 0)
            for key, value in re.findall(r"^(\w+) = (0x[0-9a-f]+|\d+)$", text, re.MULTILINE)
        }
        log = said("xfs_db", "-r", "-c", f"convert fsblock {sb['logstart']} daddr", device)
        converted = [
            said("xfs_db", "-r", "-c", f"convert agno {group} daddr", device)
            for group in range(sb["agcount"])
        ]
        with mounted(device, tmp_path / "mnt", "-o", "ro,norecovery") as folder:
            file = os.open(folder, os.O_RDONLY)
            try:
                buffer = bytearray(112)
                fcntl.ioctl(file, XFS_IOC_FSGEOMETRY_V1, buffer)
            finally:
                os.close(file)
    heads = [number(text, r"\((\d+)\)") for text in converted]
    # blocksize, rtextsize, agblocks, agcount, logblocks, sectsize, ...
    block, _, group_blocks, groups, log_blocks, sector = struct.unpack_from("=6I", buffer)
    assert (groups, group_blocks, block) == (sb["agcount"], sb["agblocks"], sb["blocksize"])
    (start,) = [int(number) for number in re.findall(r"\((\d+)\)", log)]
    assert area(got, "log") == [(start, start + log_blocks * block // SECTOR)]
    assert area(got, "headers of allocation groups") == [(at, at + 4 * sector // SECTOR) for at in heads]
    (span,) = got["spans"]
    assert span["group_sectors"] == group_blocks * block // SECTOR
    assert span["end_sector"] == sb["dblocks"] * block // SECTOR


@needs_root
@pytest.mark.parametrize(
    ("disks", "options"),
    [
        (1, []),
        (1, ["--mixed"]),
        (2, ["-d", "raid0", "-m", "raid1"]),
        (4, ["-d", "raid10", "-m", "raid1c3"]),
        (4, ["-d", "raid5", "-m", "raid6"]),
    ],
    ids=str,
)
def test_btrfs_layout_equals_its_device_trees(disks: int, options: list[str], tmp_path: Path) -> None:
    """The device tree says from each device's side what the chunk tree says from the chunks'."""
    images = [tmp_path / f"image{number}" for number in range(disks)]
    with ExitStack() as stack:
        for image in images:
            with image.open("wb") as file:
                file.truncate(400 * MIB)
        paths = [stack.enter_context(disk(image)) for image in images]
        said("mkfs.btrfs", "-q", "-f", *options, *paths)
        got = found("btrfs", *reversed(paths))
        text = said("btrfs", "inspect-internal", "dump-tree", "--noscan", "-t", "dev", *paths)
        numbers = {}
        for path in paths:
            own = said("btrfs", "inspect-internal", "dump-super", path)
            (number,) = re.findall(r"^dev_item\.devid\s+(\d+)", own, re.MULTILINE)
            numbers[number] = Part.of(path).dev
    extents = re.findall(r"key \((\d+) DEV_EXTENT (\d+)\).*?chunk_offset (\d+) length (\d+)", text, re.DOTALL)
    assert len(extents) >= 2 * disks
    chunks = {chunk["logical"]: chunk for chunk in got["chunks"]}
    for devid, start, logical, length in extents:
        dev, first, end = numbers[devid], int(start) // SECTOR, (int(start) + int(length)) // SECTOR
        chunk = chunks[int(logical)]
        assert [dev, int(start)] in chunk["stripes"]
        kinds, _, profile = chunk["type"].lower().rpartition("|")
        name = f"{'data and metadata' if '|' in kinds else kinds} ({profile})"
        held = sum(
            min(b, end) - max(a, first)
            for one in got["areas"]
            if one["dev"] == dev and one["name"].lower() in (name, "superblocks")
            for a, b in one["extents"]
            if a < end and b > first
        )
        assert held == end - first, (devid, start, name)
    listed = sum(b - a for one in got["areas"] if one["name"] != "superblocks" for a, b in one["extents"])
    superblocks = 0
    for devid, start, _, length in extents:
        for a, b in area(got, "superblocks", numbers[devid]):
            if int(start) // SECTOR <= a < (int(start) + int(length)) // SECTOR:
                superblocks += b - a
    assert listed + superblocks == sum(int(length) for *_, length in extents) // SECTOR


def number(text: str, pattern: str) -> int:
    (value,) = re.findall(pattern, text, re.MULTILINE)
    return int(value, 0)


def check_f2fs(device: str, got: dict[str, Any]) -> None:
    text = said("dump.f2fs", "-d", "1", device)
    at = [number(text, rf"{n}_blkaddr\s+\[.*: (\d+)\]") * 8 for n in ("cp", "sit", "nat", "ssa", "main")]
    names = ["checkpoint", "segment information (SIT)", "node addresses (NAT)", "segment summary (SSA)"]
    for name, start, end in zip(names, at, at[1:], strict=False):
        assert area(got, name) == [(start, end)]
    assert got["spans"][0]["end_sector"] == number(text, r"^block_count\s+\[.*: (\d+)\]") * 8


def check_jfs(device: str, got: dict[str, Any]) -> None:
    asked = subprocess.run(
        ["jfs_debugfs", device], input="su p\nx\ni 2 a\nx\nq\n", capture_output=True, text=True, check=False
    )
    text = asked.stdout
    start = number(text, r"s_logpxd\.address:\s*(\d+)") * 8
    assert area(got, "log") == [(start, start + number(text, r"s_logpxd\.len:\s*(\d+)") * 8)]
    start = number(text, r"s_fsckpxd\.address:\s*(\d+)") * 8
    assert area(got, "workspace of fsck") == [(start, start + number(text, r"s_fsckpxd\.len:\s*(\d+)") * 8)]
    blocks = number(text, r"di_nblocks:\s*(0x[0-9a-f]+|\d+)")
    assert area(got, "block map") == [(128, 128 + blocks * 8)]
    assert got["spans"][0]["group_sectors"] == number(text, r"s_agsize:\s*(0x[0-9a-f]+)") * 8


def check_reiserfs(device: str, got: dict[str, Any]) -> None:
    asked = subprocess.run(["debugreiserfs", device], capture_output=True, text=True, check=False)
    text = asked.stdout + asked.stderr
    first, size = number(text, r"first block (\d+)"), number(text, r"Size (\d+) blocks")
    assert area(got, "journal") == [(first * 8, (first + size) * 8)]
    assert sum(b - a for a, b in area(got, "bitmaps")) == number(text, r"Number of bitmaps: (\d+)") * 8
    assert got["spans"][0]["end_sector"] == number(text, r"Count of blocks on the device: (\d+)") * 8


def check_nilfs2(device: str, got: dict[str, Any]) -> None:
    text = said("nilfs-tune", "-l", device)
    (span,) = got["spans"]
    assert span["group_sectors"] == number(text, r"# of blocks per segment:\s+(\d+)") * 8
    assert span["end_sector"] == number(text, r"Device size:\s+(\d+)") // SECTOR
    (behind, _) = area(got, "not in a segment")[0]
    assert behind == number(text, r"Number of segments:\s+(\d+)") * span["group_sectors"]
    # the second superblock has the first one's magic and the next-lower checksum place: look at it
    (_, (second, _)) = area(got, "superblocks")
    with open(device, "rb") as file:
        file.seek(second * SECTOR + 6)
        assert file.read(2) == b"\x34\x34"


def check_vfat(device: str, got: dict[str, Any]) -> None:
    text = said("fsck.vfat", "-n", "-v", device)
    first = number(text, r"First FAT starts at byte (\d+)") // SECTOR
    clusters = number(text, r"Data area starts at byte (\d+)") // SECTOR
    assert area(got, "boot sectors") == [(0, first)]
    assert area(got, "file allocation tables") == [(first, clusters)]
    assert got["spans"][0]["end_sector"] == number(text, r"(\d+) sectors total")


def check_exfat(device: str, got: dict[str, Any]) -> None:
    text = said("dump.exfat", device)
    first = number(text, r"FAT Offset\(sector offset\):\s+(\d+)")
    end = first + number(text, r"FAT Length\(sectors\):\s+(\d+)")
    clusters = number(text, r"Cluster Heap Offset \(sector offset\):\s+(\d+)")
    assert area(got, "boot sectors") == [(0, first)]
    assert area(got, "file allocation table") == [(first, end)]
    assert area(got, "not in a cluster") == ([(end, clusters)] if end < clusters else [])
    assert got["spans"][0]["end_sector"] == number(text, r"Volume Length\(sectors\):\s+(\d+)")


CHECKS: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "f2fs": check_f2fs,
    "jfs": check_jfs,
    "reiserfs": check_reiserfs,
    "nilfs2": check_nilfs2,
    "vfat": check_vfat,
    "exfat": check_exfat,
}


@needs_root
@pytest.mark.parametrize("kind", OTHERS)
def test_other_layouts_equal_their_tools(kind: str, tmp_path: Path) -> None:
    with formatted(tmp_path, OTHERS[kind]) as device:
        CHECKS[kind](device, found(kind, device))


def cpu_seconds() -> float:
    """What this process and the programs it ran have computed: a program that runs wild takes that."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@needs_root
@pytest.mark.parametrize("kind", ALL)
def test_damaged_superblock_is_a_warning(kind: str, tmp_path: Path) -> None:
    """Bytes of its superblock and of what comes behind are changed at random, again and again."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    with disk(image) as device:
        subprocess.run([*ALL[kind], device], check=True, capture_output=True)
    head = image.open("rb").read(128 << 10)
    rng = np.random.default_rng(5)
    place = {"btrfs": 65536, "jfs": 32768, "reiserfs": 65536, "xfs": 0, "vfat": 0, "exfat": 0}.get(kind, 1024)
    began_s = cpu_seconds()
    warned = 0
    for turn in range(12):
        bad = bytearray(head)
        for byte in rng.integers(0, 200, 20 if turn else 400):
            bad[place + int(byte)] = int(rng.integers(0, 256))
        with image.open("r+b") as file:
            file.write(bad)
        short = ["--sizelimit", "8M"] if turn % 3 == 2 else []  # of every third, the rest is gone
        with disk(image, "--read-only", *short) as device:
            got, warnings = layout.read_layout(kind, [device])
        if "why_not" in got:
            warned += 1
            (text,) = warnings
            assert got["why_not"] in text
            assert len(text) < 500
        else:
            check_sound(got)
    assert warned > 0
    assert cpu_seconds() - began_s < 60


@needs_root
def test_missing_device_or_unknown_kind_has_no_layout(tmp_path: Path) -> None:
    got, warnings = layout.read_layout("ext4", ["/dev/nosuch"])
    assert "/dev/nosuch" in got["why_not"]
    assert len(warnings) == 1
    got, warnings = layout.read_layout("zfs", ["/dev/nosuch"])
    assert "zfs" in got["why_not"]
    assert warnings == []


def test_too_many_areas_are_cut_with_a_note() -> None:
    part = Part("/dev/x", "7:1", start_sector=2048)
    tables = [(number * 100 * SECTOR, (number * 100 + 10) * SECTOR) for number in range(50_000)]
    log = Area("log", "journal", part, [(150 * SECTOR, 3_000_005 * SECTOR)])
    got = Layout(
        [Span(part, 5_000_000 * SECTOR, "rest", "mixed")], [log, Area("t", "metadata", part, tables)]
    )
    found = got.to_json()
    check_sound(found)
    assert sum(len(one["extents"]) for one in found["areas"]) <= 20_001
    (cut, end) = area(found, "too many areas to list")[0]
    assert end == 2048 + 5_000_000
    assert area(found, "log") == [(2048 + 150, 2048 + 3_000_005)]
    kept = [(a, b) for a, b in area(found, "t") if a < cut]
    # the log's ones are cut out of the tables
    expected = [(2048 + number * 100, 2048 + number * 100 + 10) for number in (0, 1)]
    expected += [(2048 + 3_000_005, 2048 + 3_000_010)]
    assert kept[:3] == expected


@needs_root
def test_layout_of_a_mounted_partition_is_read(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(200 * MIB)
    with disk(image) as path, ExitStack() as stack:
        for slot, (start, sectors) in enumerate(((2048, 204800), (206848, 202752)), 1):
            add_partition(path, slot, start, sectors)
            stack.callback(delete_partition, path, slot)
        first, second = f"{path}p1", f"{path}p2"
        subprocess.run(["mkfs.ext4", "-q", "-F", first], check=True)
        subprocess.run(["mkfs.ext3", "-q", "-F", second], check=True)
        alone, _ = layout.read_layout("ext4", [first])
        before_run = layout.read_journal("ext4", first)
        with mounted(first, tmp_path / "one") as one, mounted(second, tmp_path / "two"):
            got, warnings = of_mounted.of_directory(blockdev.under(one))
            both, _ = of_mounted.of_disks([Path(path).name])
        text = said("debugfs", "-R", "blocks <8>", first)
        header = said("dumpe2fs", "-h", first)
    assert warnings == []
    assert got == {**alone, "journal": got["journal"]}
    block = number(header, r"^Block size:\s+(\d+)") // SECTOR
    blocks = sorted(int(word) for word in text.split())
    journal = merged([(2048 + b * block, 2048 + (b + 1) * block) for b in blocks])
    assert [tuple(extent) for extent in got["journal"]] == journal == before_run
    assert {span["dev"] for span in both["spans"]} == {Part.of(path).dev}
    assert [span["start_sector"] for span in both["spans"]] == [2048, 2048 + 204800]
    assert len(both["journal"]) == len(got["journal"]) + len(area(both, "journal")) - len(
        area(got, "journal")
    )
