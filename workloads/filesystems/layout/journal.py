# SPDX-License-Identifier: BSD-2-Clause
"""Where a file system keeps its journal on the disk, so that journal writes can be told by their address.

All extents are [start, end) in sectors of 512 bytes from the start of the disk.
"""

import re
import struct

from workloads.system.command import run_command
from workloads.system.errors import RunError

Extents = list[tuple[int, int]]


def journal(kind: str, device: str) -> Extents:
    """Return the journal's extents of a formatted (perhaps mounted) device; empty if it has none.

    Raises RunError.
    """
    return KINDS[kind](device)


def _none(device: str) -> Extents:
    """No journal in a place of its own: btrfs, f2fs, nilfs2 write their logs wherever there is room."""
    return []


def _ext(device: str) -> Extents:
    """The blocks of the journal inode, from debugfs: "(0-11):34-45, (IND):46, (12-1035):47-1070" …"""
    header = _debugfs(device, "stats -h")
    if "has_journal" not in header:
        return []
    inode = re.search(r"^Journal inode:\s+(\d+)", header, re.MULTILINE)
    block = re.search(r"^Block size:\s+(\d+)", header, re.MULTILINE)
    if inode is None or block is None:
        return []  # on another device
    sectors = int(block[1]) // 512
    text = _debugfs(device, f"stat <{inode[1]}>")
    blocks = re.findall(r"\((?:[A-Z]*IND|ETB\d+|\d+(?:-\d+)?)\):(\d+)(?:-(\d+))?", text)
    if not blocks:
        raise RunError(f"the journal's blocks on {device} cannot be read: debugfs says {text.strip()[:80]!r}")
    return _merge([(int(first) * sectors, (int(last or first) + 1) * sectors) for first, last in blocks])


def _debugfs(device: str, request: str) -> str:
    result = run_command(["debugfs", "-R", request, device])
    if result.returncode != 0:
        raise RunError(f"debugfs failed on {device}: {result.stderr.strip()}")
    return result.stdout


def _xfs(device: str) -> Extents:
    """The internal log, from the superblock (xfs_dsb in fs/xfs/libxfs/xfs_format.h; big-endian).

    sb_logstart is a block number made of the allocation group (above sb_agblklog bits) and the block in it.
    """
    with open(device, "rb") as file:
        sb = file.read(512)
    if sb[:4] != b"XFSB":
        raise RunError(f"{device} has no xfs superblock")
    block_bytes = struct.unpack_from(">I", sb, 4)[0]
    log_start = struct.unpack_from(">Q", sb, 48)[0]
    group_blocks, log_blocks = struct.unpack_from(">I", sb, 84)[0], struct.unpack_from(">I", sb, 96)[0]
    group_bits = sb[124]
    if log_start == 0:
        return []  # on another device
    first = (log_start >> group_bits) * group_blocks + (log_start & ((1 << group_bits) - 1))
    sectors = block_bytes // 512
    return [(first * sectors, (first + log_blocks) * sectors)]


def _reiserfs(device: str) -> Extents:
    """The journal and its header block, from the superblock (reiserfs_super_block in fs/reiserfs/reiserfs.h).

    Little-endian, at 64 KiB: 12 bytes of counts; the journal's first block, device, size without the header
    (u32 each), 20 bytes of its limits; the block size (u16); 6 bytes; the magic at 52.
    """
    with open(device, "rb") as file:
        file.seek(64 << 10)
        sb = file.read(512)
    if sb[52:60] not in (b"ReIsErFs", b"ReIsEr2F", b"ReIsEr3F"):
        raise RunError(f"{device} has no reiserfs superblock")
    first, journal_dev, blocks = struct.unpack_from("<3I", sb, 12)
    if journal_dev != 0:
        return []  # on another device
    sectors = struct.unpack_from("<H", sb, 44)[0] // 512
    return [(first * sectors, (first + blocks + 1) * sectors)]


def _jfs(device: str) -> Extents:
    """The inline log, from the superblock (struct jfs_superblock in fs/jfs/jfs_superblock.h; little-endian).

    At 32 KiB: the magic; block size at 16, flags at 36, the log's extent at 72: a pxd_t, which is 24 bits of
    length and 8 + 32 bits of address, in blocks.
    """
    inline_log = 0x800  # JFS_INLINELOG in fs/jfs/jfs_filsys.h
    with open(device, "rb") as file:
        file.seek(32 << 10)
        sb = file.read(512)
    if sb[:4] != b"JFS1":
        raise RunError(f"{device} has no jfs superblock")
    if not struct.unpack_from("<I", sb, 36)[0] & inline_log:
        return []  # on another device
    sectors = struct.unpack_from("<I", sb, 16)[0] // 512
    length, low = struct.unpack_from("<2I", sb, 72)
    first = (length >> 24 << 32) | low
    return [(first * sectors, (first + (length & 0xFFFFFF)) * sectors)]


def _merge(extents: Extents) -> Extents:
    merged: Extents = []
    for start, end in sorted(extents):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


KINDS = {"ext": _ext, "xfs": _xfs, "reiserfs": _reiserfs, "jfs": _jfs, "none": _none}
