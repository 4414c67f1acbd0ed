# SPDX-License-Identifier: BSD-2-Clause
"""File systems whose superblock says it all: f2fs, jfs, reiserfs, nilfs2. All are little-endian.

The tools of these print for people, or load the whole file system before they say a word; a structure each
is read here instead, and the tests compare it with what the tools print.
"""

import struct

from workloads.filesystems.layout.layout import MOST_BYTES, MOST_EXTENTS, Area, Layout, Part, Span
from workloads.system.errors import RunError

_BLOCK_SIZES = tuple(512 << i for i in range(8))


def f2fs(parts: list[Part]) -> Layout:
    """struct f2fs_super_block in include/linux/f2fs_fs.h, at byte 1024; addresses are in blocks."""
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


def jfs(parts: list[Part]) -> Layout:
    """struct jfs_superblock in fs/jfs/jfs_superblock.h, at byte 32,768; fixed places in fs/jfs/jfs_filsys.h.

    An extent (pxd_t) is 24 bits of length and 8 + 32 bits of address, in blocks.
    """
    (part,) = parts
    inode_table, block_map = 0xB000, 0x10000
    sb = part.bytes_at(32 << 10, 128)
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

    head = [(32 << 10, block_map), extent(48), extent(56)]  # the last two: its second copy
    areas = [Area("superblocks and inode table", "metadata", part, head)]
    # Inode 2 of the aggregate: di_number at 8, di_nblocks at 32 (struct dinode in fs/jfs/jfs_dinode.h).
    inode = part.bytes_at(inode_table + 2 * 512, 40)
    (blocks,) = struct.unpack_from("<Q", inode, 32)
    if struct.unpack_from("<I", inode, 8)[0] == 2 and blocks * block < sectors * hardware:
        areas.append(Area("block map", "metadata", part, [(block_map, block_map + blocks * block)]))
    end, workspace = sectors * hardware, extent(80)
    areas.append(Area("workspace of fsck", "unused", part, [workspace]))
    end = max(end, workspace[1])
    if flags & 0x800:  # JFS_INLINELOG in fs/jfs/jfs_filsys.h; else it is on another device
        log = extent(72)
        areas.append(Area("log", "journal", part, [log]))
        end = max(end, log[1])
    span = Span(part, end, "files, inodes and directories", "mixed")
    if 0 < group_blocks < 1 << 32:
        span.group, span.group_bytes = "allocation group", group_blocks * block
    return Layout([span], areas)


def reiserfs(parts: list[Part]) -> Layout:
    """struct reiserfs_super_block in fs/reiserfs/reiserfs.h, at byte 65,536.

    Counts of blocks; the journal's first block, device and size without its header at 12; the block size at
    44; the magic at 52. The first bitmap follows the superblock; every further one is the first of the blocks
    that it maps.
    """
    (part,) = parts
    at = 64 << 10
    sb = part.bytes_at(at, 512)
    if sb[52:60] not in (b"ReIsErFs", b"ReIsEr2F", b"ReIsEr3F"):
        raise RunError(f"{part.path} has no reiserfs superblock")
    (blocks,) = struct.unpack_from("<I", sb, 0)
    first, journal_dev, length = struct.unpack_from("<3I", sb, 12)
    (block,) = struct.unpack_from("<H", sb, 44)
    if block not in _BLOCK_SIZES or not blocks:
        raise RunError(f"the reiserfs superblock on {part.path} is broken")
    mapped = block * 8
    maps = [at // block + 1, *range(mapped, blocks, mapped)[:MOST_EXTENTS]]
    areas = [
        Area("superblock", "metadata", part, [(at, at + block)]),
        Area("bitmaps", "metadata", part, [(number * block, (number + 1) * block) for number in maps]),
    ]
    if journal_dev == 0:
        areas.append(Area("journal", "journal", part, [(first * block, (first + length + 1) * block)]))
    return Layout([Span(part, blocks * block, "tree and files", "mixed")], areas)


def nilfs2(parts: list[Part]) -> Layout:
    """struct nilfs_super_block in include/uapi/linux/nilfs2_ondisk.h, at byte 1024 and near the device's end.

    All between is its log, in segments: data and metadata in the order in which they were written.
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
