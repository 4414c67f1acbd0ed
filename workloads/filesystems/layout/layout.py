# SPDX-License-Identifier: BSD-2-Clause
"""Layout of a file system on its devices, with the names that run.json uses (see README.md in this folder).

Inside this folder extents are [start, end) in bytes from the start of the file system's device. to_json()
converts them to sectors of the whole disk, the unit of the block table.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.system.errors import RunError

SECTOR_BYTES = 512
# In run.json, of all areas together: about half a megabyte.
MOST_EXTENTS = 20_000
MOST_CHUNKS = 4096
# No device is larger: a superblock with a larger size is damaged.
MOST_BYTES = 1 << 60
_SYS = Path("/sys/dev/block")

Extents = list[tuple[int, int]]


@dataclass(frozen=True)
class Part:
    """A device of a file system: a whole disk, or a partition of one."""

    path: str  # /dev/vda1
    dev: str  # "254:0": the disk's number, as in the block table
    start_sector: int = 0  # of the partition on that disk

    @classmethod
    def of(cls, path: str) -> "Part":
        """Find the disk below a device. An image file is a disk without a number. Raises RunError."""
        if os.path.isfile(path):
            return cls(path, "")
        try:
            number = os.stat(path).st_rdev
            sysfs = (_SYS / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
            if (sysfs / "partition").exists():
                return cls(
                    path, (sysfs.parent / "dev").read_text().strip(), int((sysfs / "start").read_text())
                )
            return cls(path, (sysfs / "dev").read_text().strip())
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is not in {_SYS}: {error}") from None

    def bytes_at(self, offset: int, count: int) -> bytes:
        """Read from the device, which is opened for reading only. Raises RunError."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(offset)
                content = file.read(count)
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {(error.strerror or '').lower()}") from None
        if len(content) < count:
            raise RunError(f"{self.path} ends before byte {offset + count:,}")
        return content


@dataclass
class Area:
    """A named part of one device. kind: journal, metadata, data, mixed (may hold either) or unused."""

    name: str
    kind: str
    part: Part
    extents: Extents


@dataclass
class Span:
    """A file system's part of one device. `rest` names what is in no area."""

    part: Part
    end: int
    rest: str
    rest_kind: str
    group: str = ""  # name of the equal pieces of the device, if there are any
    group_bytes: int = 0
    first_group: int = 0  # offset of the first piece


@dataclass
class Layout:
    """A file system's layout. Areas earlier in the list are cut out of later ones. chunks: see btrfs.py."""

    spans: list[Span]
    areas: list[Area]
    chunks: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the content of run.json's geometry: areas disjoint and in sectors."""
        areas: list[dict[str, Any]] = []
        taken: dict[str, Extents] = {}
        for area in self.areas:
            left = without(to_sectors(area.part, area.extents), taken.get(area.part.dev, []))
            taken[area.part.dev] = merged([*taken.get(area.part.dev, []), *left])
            areas.append({"name": area.name, "kind": area.kind, "dev": area.part.dev, "extents": left})
        spans = [_span(span) for span in self.spans]
        content: dict[str, Any] = {"areas": _bounded(areas, spans), "spans": spans}
        if self.chunks:
            content["chunks"] = self.chunks[:MOST_CHUNKS]
        return content


def _span(span: Span) -> dict[str, Any]:
    start = span.part.start_sector
    content: dict[str, Any] = {
        "dev": span.part.dev,
        "start_sector": start,
        "end_sector": start + span.end // SECTOR_BYTES,
        "rest": span.rest,
        "rest_kind": span.rest_kind,
    }
    if span.group_bytes:
        content |= {
            "group": span.group,
            "group_sectors": span.group_bytes // SECTOR_BYTES,
            "first_group_sector": start + span.first_group // SECTOR_BYTES,
        }
    return content


def _bounded(areas: list[dict[str, Any]], spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the first extents of each device if there are too many. One mixed area covers the rest."""
    share = MOST_EXTENTS // max(len(spans), 1)
    for span in spans:
        starts = sorted(
            start for area in areas if area["dev"] == span["dev"] for start, _ in area["extents"]
            if span["start_sector"] <= start < span["end_sector"]
        )  # fmt: skip
        if len(starts) <= share:
            continue
        cut = starts[share]
        for area in areas:
            if area["dev"] == span["dev"]:
                area["extents"] = [
                    (start, min(end, cut) if start < cut < end <= span["end_sector"] else end)
                    for start, end in area["extents"]
                    if start < cut or start >= span["end_sector"]
                ]
        areas.append(
            {
                "name": "too many areas to list",
                "kind": "mixed",
                "dev": span["dev"],
                "extents": [(cut, span["end_sector"])],
            }
        )
    return [area for area in areas if area["extents"]]


def to_sectors(part: Part, extents: Extents) -> Extents:
    """Return extents of a device as sectors of the whole disk, sorted and joined."""
    return merged(
        (part.start_sector + start // SECTOR_BYTES, part.start_sector + -(-end // SECTOR_BYTES))
        for start, end in extents
    )


def merged(extents: Iterable[tuple[int, int]]) -> Extents:
    """Return the extents sorted, with those joined that touch or overlap. Empty extents are left out."""
    joined: Extents = []
    for start, end in sorted(extents):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def without(extents: Extents, taken: Extents) -> Extents:
    """Return the parts of extents that no taken extent covers. Both arguments are merged()."""
    left: Extents = []
    at = 0
    for start, end in extents:
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        i = at
        while i < len(taken) and taken[i][0] < end:
            if taken[i][0] > start:
                left.append((start, taken[i][0]))
            start = max(start, taken[i][1])
            i += 1
        if start < end:
            left.append((start, end))
    return left
