# SPDX-License-Identifier: BSD-2-Clause
"""XFS: allocation groups and the internal log, from struct xfs_dsb (fs/xfs/libxfs/xfs_format.h).

The superblock is read without xfs_db, which refuses some mounted file systems and loads much more than this.
"""

import struct
from dataclasses import dataclass

from workloads.filesystems.layout.layout import MOST_BYTES, MOST_EXTENTS, Area, Extents, Layout, Part, Span
from workloads.system.errors import RunError

# Superblock, free space, inodes, free list: a sector each at the start of every group.
_HEADERS = 4
NO_REALTIME = "what lies on its realtime device is not known"


@dataclass(frozen=True)
class _Superblock:
    total_bytes: int
    group_bytes: int
    groups: int
    sector_bytes: int
    has_realtime: bool
    log: Extents  # empty: the log is on another device


def read_layout(parts: list[Part]) -> Layout:
    """Return the headers of allocation groups and the log. Raises RunError."""
    (part,) = parts
    sb = _read_superblock(part)
    span = Span(part, sb.total_bytes, "files, inodes and trees", "mixed", "allocation group", sb.group_bytes)
    # One extent more than run.json lists, so that Layout reports the cut.
    headers = [
        (start, start + _HEADERS * sb.sector_bytes)
        for start in (number * sb.group_bytes for number in range(min(sb.groups, MOST_EXTENTS + 2)))
    ]
    areas = [Area("headers of allocation groups", "metadata", part, headers)]
    if sb.log:
        areas.append(Area("log", "journal", part, sb.log))
    warnings = [NO_REALTIME] if sb.has_realtime else []
    return Layout([span], areas, warnings=warnings)


def read_journal(part: Part) -> Extents:
    """Return the internal log. Raises RunError."""
    return _read_superblock(part).log


def _read_superblock(part: Part) -> _Superblock:
    """Read the first superblock; its fields are big-endian."""
    sb = part.bytes_at(0, 512)
    if sb[:4] != b"XFSB":
        raise RunError(f"{part.path} has no xfs superblock")
    block, blocks, realtime = struct.unpack_from(">IQQ", sb, 4)
    (log_start,) = struct.unpack_from(">Q", sb, 48)
    group_blocks, groups, _, log_blocks = struct.unpack_from(">4I", sb, 84)
    (sector,) = struct.unpack_from(">H", sb, 102)
    group_bits = sb[124]
    if not (
        512 <= block <= 65536
        and 512 <= sector <= block
        and 0 < blocks * block <= MOST_BYTES
        and 0 < group_blocks < 1 << 32
        and (groups - 1) * group_blocks < blocks <= groups * group_blocks
        and group_bits < 32
    ):
        raise RunError(f"the xfs superblock on {part.path} is broken")
    # sb_logstart: the allocation group above sb_agblklog (group_bits) bits, the block in that group below.
    log = (log_start >> group_bits) * group_blocks + (log_start & ((1 << group_bits) - 1))
    return _Superblock(
        total_bytes=blocks * block,
        group_bytes=group_blocks * block,
        groups=groups,
        sector_bytes=sector,
        has_realtime=realtime != 0,
        log=[(log * block, (log + log_blocks) * block)] if log_start else [],
    )
