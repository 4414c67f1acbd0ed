# SPDX-License-Identifier: BSD-2-Clause
"""Btrfs: the chunk tree, from btrfs inspect-internal: device extents of data and of metadata.

Chunks are allocated and freed; this is their state after the run. FIEMAP and the kernel's log give logical
addresses of btrfs; "chunks" maps these to the devices, in bytes of the disk:
{"logical", "bytes", "type": "METADATA|DUP", "stripes": [["7:8", byte], …]}.
"""

import os
import re
from typing import Any

from workloads.filesystems.layout.layout import SECTOR_BYTES, Area, Extents, Layout, Part, Span, merged
from workloads.filesystems.layout.tool import output_of
from workloads.system.errors import RunError

# BTRFS_SUPER_INFO_OFFSET and btrfs_sb_offset() in fs/btrfs/: a copy of 4 KiB at each offset below the
# device's end.
_SUPERBLOCKS = (64 << 10, 64 << 20, 256 << 30)
_SUPERBLOCK_BYTES = 4096
_ITEM = re.compile(r"^\titem \d+ key \(\S+ (?P<kind>DEV_ITEM|CHUNK_ITEM) (?P<offset>\d+)\)", re.MULTILINE)


def read_layout(parts: list[Part]) -> Layout:
    """Return the chunks of all devices, and the superblocks. Raises RunError."""
    by_id: dict[int, Part] = {}
    for part in parts:
        _drop_cache(part)
        text = output_of(["btrfs", "inspect-internal", "dump-super", part.path])
        by_id[_number(text, r"^dev_item\.devid\s+(\d+)")] = part
    # --noscan: btrfs would read every disk of the machine to find further devices
    text = output_of(
        ["btrfs", "inspect-internal", "dump-tree", "--noscan", "-t", "chunk", *(p.path for p in parts)]
    )
    starts = list(_ITEM.finditer(text))
    sizes: dict[int, int] = {}
    areas: dict[tuple[str, str, int], Extents] = {}
    chunks = []
    for i, item in enumerate(starts):
        body = text[item.end() : starts[i + 1].start() if i + 1 < len(starts) else len(text)]
        if item["kind"] == "DEV_ITEM":
            sizes[int(item["offset"])] = _number(body, r"total_bytes (\d+)")
        else:
            chunks.append(_chunk(int(item["offset"]), body, by_id, areas))
    if not chunks:
        raise RunError(f"btrfs inspect-internal shows no chunks of {parts[0].path}")
    spans = [Span(part, sizes.get(number, 0), "unallocated", "unused") for number, part in by_id.items()]
    all_areas = []
    for span in spans:
        copies = [(at, at + _SUPERBLOCK_BYTES) for at in _SUPERBLOCKS if at < span.end]
        all_areas.append(Area("superblocks", "metadata", span.part, copies))
    all_areas += [
        Area(name, kind, by_id[number], merged(extents)) for (name, kind, number), extents in areas.items()
    ]
    missing = sorted(set(sizes) - set(by_id))
    warnings = [f"nothing is known of its devices with the numbers {missing}"] if missing else []
    return Layout(spans, all_areas, chunks, warnings)


def _chunk(
    logical: int, body: str, by_id: dict[int, Part], areas: dict[tuple[str, str, int], Extents]
) -> dict[str, Any]:
    """Add one chunk's stripes to the areas. Returns the chunk's entry for "chunks"."""
    length, stripes, sub = (
        _number(body, pattern) for pattern in (r"length (\d+)", r"num_stripes (\d+)", r"sub_stripes (\d+)")
    )
    flags = re.search(r"type (\S+)", body)
    kinds, _, profile = (flags[1] if flags else "").rpartition("|")
    lower = {word.lower() for word in kinds.split("|")}
    name, kind = (
        ("data and metadata", "mixed")
        if {"data", "metadata"} <= lower
        else ("data", "data")
        if "data" in lower
        else ("system", "metadata")
        if "system" in lower
        else ("metadata", "metadata")
    )
    # Number of stripes that share the bytes of one copy: calc_stripe_length() in fs/btrfs/volumes.c.
    data_stripes = {
        "RAID0": stripes,
        "RAID10": stripes // max(sub, 1),
        "RAID5": stripes - 1,
        "RAID6": stripes - 2,
    }
    each = length // max(data_stripes.get(profile, 1), 1)
    stripe_list = []
    for number, offset in re.findall(r"stripe \d+ devid (\d+) offset (\d+)", body):
        part = by_id.get(int(number))
        if part is not None:
            extents = areas.setdefault((f"{name} ({profile})", kind, int(number)), [])
            extents.append((int(offset), int(offset) + each))
            stripe_list.append([part.dev, part.start_sector * SECTOR_BYTES + int(offset)])
    return {"logical": logical, "bytes": length, "type": f"{kinds}|{profile}", "stripes": stripe_list}


def _number(text: str, pattern: str) -> int:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise RunError(f"btrfs inspect-internal does not say {pattern.split('(')[0].strip('^ ')!r}")
    return int(match[1])


def _drop_cache(part: Part) -> None:
    """Drop the device's page cache, because a mounted btrfs writes past it.

    posix_fadvise(2) drops clean pages only, so no data is lost.
    """
    try:
        file = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RunError(f"{part.path} cannot be read: {(error.strerror or '').lower()}") from None
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
