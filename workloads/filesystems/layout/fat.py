# SPDX-License-Identifier: BSD-2-Clause
"""FAT and exFAT: boot sectors, file allocation tables, then clusters of files and directories.

The layout follows from the boot sector alone, which is little-endian (include/uapi/linux/msdos_fs.h,
fs/exfat/exfat_raw.h). The tests compare it with what fsck.vfat and dump.exfat print.
"""

import struct

from workloads.filesystems.layout.layout import MOST_BYTES, Area, Layout, Part, Span
from workloads.system.errors import RunError

_SECTOR_SIZES = (512, 1024, 2048, 4096)
_DIRECTORY_ENTRY_BYTES = 32
_REST = "clusters: files and directories"


def read_vfat(parts: list[Part]) -> Layout:
    """Return the areas of a FAT12, FAT16 or FAT32. Raises RunError."""
    (part,) = parts
    boot = part.bytes_at(0, 512)
    sector, _, reserved, tables, root_entries, small_total = struct.unpack_from("<HBHBHH", boot, 11)
    (table,) = struct.unpack_from("<H", boot, 22)
    total, large_table = struct.unpack_from("<II", boot, 32)
    total, table = small_total or total, table or large_table
    if boot[510:] != b"\x55\xaa" or b"FAT" not in (boot[54:57], boot[82:85]):
        raise RunError(f"{part.path} has no vfat superblock")
    first = reserved * sector
    root = first + tables * table * sector
    clusters = root + root_entries * _DIRECTORY_ENTRY_BYTES
    end = total * sector
    if sector not in _SECTOR_SIZES or not 0 < first < root <= clusters < end <= MOST_BYTES:
        raise RunError(f"the vfat superblock on {part.path} is broken")
    areas = [
        Area("boot sectors", "metadata", part, [(0, first)]),
        Area("file allocation tables", "metadata", part, [(first, root)]),
    ]
    if root_entries:
        areas.append(Area("root directory", "metadata", part, [(root, clusters)]))
    return Layout([Span(part, end, _REST, "mixed")], areas)


def read_exfat(parts: list[Part]) -> Layout:
    """Return the areas of an exFAT. Raises RunError."""
    (part,) = parts
    boot = part.bytes_at(0, 512)
    (total,) = struct.unpack_from("<Q", boot, 72)
    table, length, clusters, count = struct.unpack_from("<4I", boot, 80)
    sector_bits, cluster_bits, tables = struct.unpack_from("<BBB", boot, 108)
    if boot[3:11] != b"EXFAT   ":
        raise RunError(f"{part.path} has no exfat superblock")
    sector = 1 << min(sector_bits, 20)
    used = clusters + (count << min(cluster_bits, 25))
    is_ordered = 0 < table < table + tables * length <= clusters < used <= total
    if sector not in _SECTOR_SIZES or not is_ordered or total * sector > MOST_BYTES:
        raise RunError(f"the exfat superblock on {part.path} is broken")
    table_end = table + tables * length
    areas = [
        Area("boot sectors", "metadata", part, [(0, table * sector)]),
        Area("file allocation table", "metadata", part, [(table * sector, table_end * sector)]),
        Area("not in a cluster", "unused", part, [(table_end * sector, clusters * sector)]),
    ]
    return Layout([Span(part, total * sector, _REST, "mixed")], areas)
