# SPDX-License-Identifier: BSD-2-Clause
"""XFS: allocation groups and the internal log, from struct xfs_dsb (fs/xfs/libxfs/xfs_format.h).

Read without xfs_db, which refuses some file systems that are mounted, and loads much more than this.
"""

import struct

from workloads.filesystems.layout.layout import MOST_BYTES, MOST_EXTENTS, Area, Layout, Part, Span
from workloads.system.errors import RunError

# Superblock, free space, inodes, free list: a sector each at the start of every group.
_HEADERS = 4


def layout(parts: list[Part]) -> Layout:
    """Read it; its fields are big-endian. Raises RunError."""
    (part,) = parts
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
    span = Span(
        part, blocks * block, "files, inodes and trees", "mixed", "allocation group", group_blocks * block
    )
    # One more than is listed, so that the cut is said.
    heads = [
        (start, start + _HEADERS * sector)
        for start in (number * group_blocks * block for number in range(min(groups, MOST_EXTENTS + 2)))
    ]
    areas = [Area("headers of allocation groups", "metadata", part, heads)]
    if log_start:
        # The group's number is above group_bits bits, the block in it below.
        first = (log_start >> group_bits) * group_blocks + (log_start & ((1 << group_bits) - 1))
        areas.append(Area("log", "journal", part, [(first * block, (first + log_blocks) * block)]))
    warnings = ["what lies on its realtime device is not known"] if realtime else []
    return Layout([span], areas, warnings=warnings)
