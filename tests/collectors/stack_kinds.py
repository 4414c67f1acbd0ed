# SPDX-License-Identifier: BSD-2-Clause
"""The stacks that are tested: what each needs, and what is known of it without looking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.collectors import stacks
from tests.collectors.stacks import CHUNK_SECTORS, DISK_SECTORS, Site

EXT4 = ("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0")


@dataclass(frozen=True)
class Kind:
    """A stack, and what is known of it without looking."""

    build: Callable[[Site], list[str]]
    disks: int
    modules: tuple[str, ...] = ("dm-mod",)
    programs: tuple[str, ...] = ("dmsetup",)
    write_copies: int = 1  # what the leaves write for each byte written to the volume, parity apart
    # Whether every byte at the leaves serves a bio of the volume: the layer has no metadata or copies.
    is_plain: bool = True
    # Some of the volume's bytes are sent down without a remap (dm's cache and snapshot after they waited for
    # a copy): no origin, but the class and inode of their pages.
    by_page: bool = False
    copies_vary: bool = False  # a cache has some of the bytes a second time
    is_dm_raid: bool = False  # md inside device-mapper, which both may count
    has_holes: bool = False  # reads of what was never written reach no disk
    quiet_seconds: float = 0.3  # md writes its bitmap and superblock later
    # (sector of the volume, first data sector of a member) -> places: number of the leaf, sector there
    place: Callable[[int, int], list[tuple[int, int]]] | None = None


def chunk_of(sector: int) -> tuple[int, int]:
    """Return the chunk that a sector lies in, and its place there."""
    return divmod(sector, CHUNK_SECTORS)


def in_linear(sector: int, offset: int) -> list[tuple[int, int]]:
    first = DISK_SECTORS - 2048
    return [(0, sector + 2048)] if sector < first else [(1, sector - first)]


def in_stripes(sector: int, offset: int) -> list[tuple[int, int]]:
    chunk, rest = chunk_of(sector)
    return [(chunk % 2, offset + chunk // 2 * CHUNK_SECTORS + rest)]


def in_raid10(sector: int, offset: int) -> list[tuple[int, int]]:
    """Two near copies on four disks."""
    chunk, rest = chunk_of(sector)
    at = offset + chunk // 2 * CHUNK_SECTORS + rest
    return [(chunk % 2 * 2, at), (chunk % 2 * 2 + 1, at)]


def in_raid5(sector: int, offset: int) -> list[tuple[int, int]]:
    """Three disks, left-symmetric (md's default): data begins behind the parity, which moves to the left."""
    chunk, rest = chunk_of(sector)
    stripe, data = divmod(chunk, 2)
    parity = 2 - stripe % 3
    return [((parity + 1 + data) % 3, offset + stripe * CHUNK_SECTORS + rest)]


def shifted(disks: int, shift: int = 0) -> Callable[[int, int], list[tuple[int, int]]]:
    """Every disk has the volume's sectors, from here on."""
    return lambda sector, offset: [(disk, sector + shift + offset) for disk in range(disks)]


def md(
    build: Callable[[Site], list[str]],
    disks: int,
    *modules: str,
    write_copies: int = 1,
    quiet_seconds: float = 1.0,
    place: Callable[[int, int], list[tuple[int, int]]] | None = None,
) -> Kind:
    """Arrays, which write superblocks, and some a bitmap seconds later."""
    return Kind(
        build,
        disks,
        modules,
        ("mdadm",),
        write_copies,
        is_plain=False,
        quiet_seconds=quiet_seconds,
        place=place,
    )


def layered(
    build: Callable[[Site], list[str]],
    disks: int,
    module: str,
    program: str = "dmsetup",
    copies_vary: bool = False,
) -> Kind:
    """Layers with copies and metadata of their own, which pass some bios on without a remap."""
    return Kind(build, disks, (module,), (program,), is_plain=False, by_page=True, copies_vary=copies_vary)


KINDS: dict[str, Kind] = {
    "linear": Kind(stacks.linear, 2, place=in_linear),
    "striped": Kind(stacks.striped, 2, place=in_stripes),
    "lvm": Kind(stacks.lvm, 1, programs=("lvm",), place=shifted(1, 4096)),
    "crypt": Kind(stacks.crypt, 1, ("dm-crypt",), place=shifted(1)),
    "crypt_inline": Kind(stacks.crypt_inline, 1, ("dm-crypt",), place=shifted(1)),
    "lvm_on_crypt": Kind(stacks.lvm_on_crypt, 1, ("dm-crypt",), ("dmsetup", "lvm"), place=shifted(1, 2048)),
    "thin": Kind(stacks.thin, 2, ("dm-thin-pool",), is_plain=False, has_holes=True),
    "cache": layered(stacks.cache, 3, "dm-cache-smq", copies_vary=True),
    "cache_writeback": layered(stacks.cache_writeback, 3, "dm-cache-smq", copies_vary=True),
    "writecache": Kind(stacks.writecache, 2, ("dm-writecache",), is_plain=False),
    "snapshot": layered(stacks.snapshot, 2, "dm-snapshot"),
    "snapshot_origin": layered(stacks.snapshot_origin, 2, "dm-snapshot"),
    "raid0": Kind(stacks.raid0, 2, ("raid0",), ("mdadm",), place=in_stripes),
    "raid1": md(stacks.raid1, 2, "raid1", write_copies=2, quiet_seconds=4.0, place=shifted(2)),
    "raid5": md(stacks.raid5, 3, "raid456", place=in_raid5),
    "raid6": md(stacks.raid6, 4, "raid456"),
    "raid10": md(stacks.raid10, 4, "raid10", write_copies=2, place=in_raid10),
    "crypt_on_raid5": md(stacks.crypt_on_raid5, 3, "raid456", "dm-crypt"),
    "lvm_on_raid1": md(stacks.lvm_on_raid1, 2, "raid1", "dm-mod", write_copies=2, quiet_seconds=4.0),
    "lvm_raid1": Kind(
        stacks.lvm_raid1, 2, ("dm-raid",), ("lvm",), 2, is_plain=False, is_dm_raid=True, quiet_seconds=4.0
    ),
    "multipath": Kind(stacks.multipath, 1, ("dm-round-robin",), place=shifted(2)),
    "bcache": layered(stacks.bcache, 2, "bcache", program="make-bcache", copies_vary=True),
    "bcache_writeback": layered(
        stacks.bcache_writeback, 2, "bcache", program="make-bcache", copies_vary=True
    ),
    "nvme": Kind(stacks.nvme, 0, ("nvmet-tcp", "nvme-tcp"), ("nvme",), place=shifted(2)),
    "md_linear": Kind(stacks.md_linear, 2, ("linear",), ("mdadm",)),
}
