# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's own counters of block devices: /sys/class/block/NAME/stat (Documentation/block/stat.rst)."""

from collections.abc import Iterable
from pathlib import Path

_SECTOR_BYTES = 512
# Fields of stat; the discards exist since Linux 4.18.
_READS, _READ_SECTORS, _WRITES, _WRITE_SECTORS, _DISCARD_SECTORS = 0, 2, 4, 6, 13


def read(names: Iterable[str], sysfs: Path = Path("/sys/class/block")) -> dict[str, dict[str, int]]:
    """Return bytes and requests since boot by device; a device that is gone is left out.

    Of a volume the kernel counts bios, in some layers pieces of them, so only its bytes are exact.
    """
    counters = {}
    for name in names:
        try:
            fields = [int(text) for text in (sysfs / name / "stat").read_text().split()]
        except (OSError, ValueError):
            continue
        if len(fields) <= _WRITE_SECTORS:
            continue
        discards = fields[_DISCARD_SECTORS] if len(fields) > _DISCARD_SECTORS else 0
        counters[name] = {
            "read_bytes": fields[_READ_SECTORS] * _SECTOR_BYTES,
            "write_bytes": fields[_WRITE_SECTORS] * _SECTOR_BYTES,
            "discard_bytes": discards * _SECTOR_BYTES,
            "read_requests": fields[_READS],
            "write_requests": fields[_WRITES],
        }
    return counters


def moved_bytes(start: dict[str, dict[str, int]], end: dict[str, dict[str, int]], name: str) -> int:
    """Return the bytes read and written between two readings; 0 if one of them lacks the device."""
    if name not in start or name not in end:
        return 0
    keys = ("read_bytes", "write_bytes")
    return max(sum(end[name][key] - start[name][key] for key in keys), 0)
