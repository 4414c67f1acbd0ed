# SPDX-License-Identifier: BSD-2-Clause
"""f2fs, jfs, reiserfs, nilfs2: the layout follows from the superblock alone. All are little-endian.

The superblock is read here, because the tools of these file systems print for people, or load the whole file
system first. The tests compare the result with what the tools print.
"""

import struct
from dataclasses import dataclass

from workloads.filesystems.layout.layout import MOST_BYTES, MOST_EXTENTS, Area, Extents, Layout, Part, Span
from workloads.system.errors import RunError

_BLOCK_SIZES = tuple(512 << i for i in range(8))


def read_f2fs(parts: list[Part]) -> Layout:
    """Return the areas of an f2fs before its main area. Raises RunError.

    Reads struct f2fs_super_block in include/linux/f2fs_fs.h, at byte 1024; addresses are in blocks.
    """
    (part,) = parts
    sb = part.bytes_at(1024, 96)
    magic, block_bits = struct.unpack_from("<I", sb, 0)[0], struct.unpack_from("<I", sb, 16)[0]
    if magic != 0xF2F52010:
        raise RunError(f"{part.path} has no f2fs superblock")
    (blocks,) = struct.unpack_from("<Q", sb, 36)
    checkpoint, sit, nat, summary, main = struct.unpack_from("<5I", sb, 76)
    block = 1 << min(block_bits, 20)
    ends = (0, checkpoint, sit, nat, summary, main, blocks)
    if block not in _BLOCK_SIZES or blocks * block > MOST_BYTES or list(ends) != sorted(ends):
        raise RunError(f"the f2fs superblock on {part.path} is broken")
    names = (
        "superblocks",
        "checkpoint",
        "segment information (SIT)",
        "node addresses (NAT)",
        "segment summary (SSA)",
    )
    areas = [
        Area(name, "metadata", part, [(start * block, end * block)])
        for name, start, end in zip(names, ends[:5], ends[1:6], strict=True)
    ]
    return Layout([Span(part, blocks * block, "main area: nodes and data", "mixed")], areas)


@dataclass(frozen=True)
class _JfsSuperblock:
    """Extents of one jfs, in bytes."""

    block_bytes: int
    total_bytes: int
    group_blocks: int
    copy: Extents  # inode table and map of the second copy
    workspace: Extents  # of fsck
    log: Extents  # empty: the log is on another device


# Fixed offsets in fs/jfs/jfs_filsys.h.
_JFS_SUPERBLOCK, _JFS_INODE_TABLE, _JFS_BLOCK_MAP = 0x8000, 0xB000, 0x10000


def read_jfs(parts: list[Part]) -> Layout:
    """Return the tables and the log of a jfs. Raises RunError."""
    (part,) = parts
    sb = _read_jfs_superblock(part)
    head = [(_JFS_SUPERBLOCK, _JFS_BLOCK_MAP), *sb.copy]
    areas = [Area("superblocks and inode table", "metadata", part, head)]
    # Inode 2 of the aggregate: di_number at 8, di_nblocks at 32 (struct dinode in fs/jfs/jfs_dinode.h).
    inode = part.bytes_at(_JFS_INODE_TABLE + 2 * 512, 40)
    (blocks,) = struct.unpack_from("<Q", inode, 32)
    if struct.unpack_from("<I", inode, 8)[0] == 2 and blocks * sb.block_bytes < sb.total_bytes:
        block_map = [(_JFS_BLOCK_MAP, _JFS_BLOCK_MAP + blocks * sb.block_bytes)]
        areas.append(Area("block map", "metadata", part, block_map))
    areas.append(Area("workspace of fsck", "unused", part, sb.workspace))
    if sb.log:
        areas.append(Area("log", "journal", part, sb.log))
    end = max(sb.total_bytes, *(end for _, end in (*sb.workspace, *sb.log)))
    span = Span(part, end, "files, inodes and directories", "mixed")
    if 0 < sb.group_blocks < 1 << 32:
        span.group, span.group_bytes = "allocation group", sb.group_blocks * sb.block_bytes
    return Layout([span], areas)


def read_jfs_journal(part: Part) -> Extents:
    """Return the inline log of a jfs. Raises RunError."""
    return _read_jfs_superblock(part).log


def _read_jfs_superblock(part: Part) -> _JfsSuperblock:
    """Read struct jfs_superblock in fs/jfs/jfs_superblock.h, at byte 32,768.

    An extent (pxd_t) is 24 bits of length and 8 + 32 bits of address, in blocks.
    """
    sb = part.bytes_at(_JFS_SUPERBLOCK, 128)
    if sb[:4] != b"JFS1":
        raise RunError(f"{part.path} has no jfs superblock")
    sectors, block = struct.unpack_from("<QI", sb, 8)
    hardware = struct.unpack_from("<I", sb, 24)[0]
    group_blocks, flags = struct.unpack_from("<II", sb, 32)
    if block not in _BLOCK_SIZES or hardware not in _BLOCK_SIZES or sectors * hardware > MOST_BYTES:
        raise RunError(f"the jfs superblock on {part.path} is broken")

    def extent(offset: int) -> tuple[int, int]:
        length, low = struct.unpack_from("<II", sb, offset)
        first = (length >> 24 << 32) | low
        return first * block, (first + (length & 0xFFFFFF)) * block

    inline_log = 0x800  # JFS_INLINELOG in fs/jfs/jfs_filsys.h
    return _JfsSuperblock(
        block_bytes=block,
        total_bytes=sectors * hardware,
        group_blocks=group_blocks,
        copy=[extent(48), extent(56)],
        workspace=[extent(80)],
        log=[extent(72)] if flags & inline_log else [],
    )


_REISERFS_SUPERBLOCK = 64 << 10


@dataclass(frozen=True)
class _ReiserfsSuperblock:
    block_bytes: int
    blocks: int
    journal: Extents  # with its header block, in bytes; empty: on another device


def read_reiserfs(parts: list[Part]) -> Layout:
    """Return the bitmaps and the journal of a reiserfs. Raises RunError.

    The first bitmap follows the superblock; every further bitmap is the first of the blocks that it maps.
    """
    (part,) = parts
    sb = _read_reiserfs_superblock(part)
    block, mapped = sb.block_bytes, sb.block_bytes * 8
    maps = [_REISERFS_SUPERBLOCK // block + 1, *range(mapped, sb.blocks, mapped)[:MOST_EXTENTS]]
    areas = [
        Area("superblock", "metadata", part, [(_REISERFS_SUPERBLOCK, _REISERFS_SUPERBLOCK + block)]),
        Area("bitmaps", "metadata", part, [(number * block, (number + 1) * block) for number in maps]),
    ]
    if sb.journal:
        areas.append(Area("journal", "journal", part, sb.journal))
    return Layout([Span(part, sb.blocks * block, "tree and files", "mixed")], areas)


def read_reiserfs_journal(part: Part) -> Extents:
    """Return the journal of a reiserfs and its header block. Raises RunError."""
    return _read_reiserfs_superblock(part).journal


def _read_reiserfs_superblock(part: Part) -> _ReiserfsSuperblock:
    """Read struct reiserfs_super_block in fs/reiserfs/reiserfs.h, at byte 65,536.

    Count of blocks at 0; the journal's first block, device and size without its header at 12; the block size
    at 44; the magic at 52.
    """
    sb = part.bytes_at(_REISERFS_SUPERBLOCK, 512)
    if sb[52:60] not in (b"ReIsErFs", b"ReIsEr2F", b"ReIsEr3F"):
        raise RunError(f"{part.path} has no reiserfs superblock")
    (blocks,) = struct.unpack_from("<I", sb, 0)
    first, journal_dev, length = struct.unpack_from("<3I", sb, 12)
    (block,) = struct.unpack_from("<H", sb, 44)
    if block not in _BLOCK_SIZES or not blocks:
        raise RunError(f"the reiserfs superblock on {part.path} is broken")
    journal = [(first * block, (first + length + 1) * block)] if journal_dev == 0 else []
    return _ReiserfsSuperblock(block, blocks, journal)


def read_nilfs2(parts: list[Part]) -> Layout:
    """Return the superblocks of a nilfs2 and its log, which fills the rest of the device. Raises RunError.

    Reads struct nilfs_super_block in include/uapi/linux/nilfs2_ondisk.h, at byte 1024; a copy is near the
    device's end. The log is segments of data and metadata in the order in which they were written.
    """
    (part,) = parts
    sb = part.bytes_at(1024, 64)
    (magic,) = struct.unpack_from("<H", sb, 6)
    block_bits, segments, device, first, length = struct.unpack_from("<IQQQI", sb, 20)
    block = 1024 << min(block_bits, 20)
    end = segments * length * block
    if magic != 0x3434:
        raise RunError(f"{part.path} has no nilfs2 superblock")
    if block not in _BLOCK_SIZES or not 0 < end <= device <= MOST_BYTES or first >= length:
        raise RunError(f"the nilfs2 superblock on {part.path} is broken")
    # NILFS_SB2_OFFSET_BYTES: the last whole 4 KiB but one
    second = (device // 4096 - 1) * 4096
    areas = [
        Area("superblocks", "metadata", part, [(0, first * block), (second, second + 4096)]),
        Area("not in a segment", "unused", part, [(end, second), (second + 4096, device)]),
    ]
    return Layout([Span(part, device, "log of data and metadata", "mixed", "segment", length * block)], areas)
