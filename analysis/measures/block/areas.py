# SPDX-License-Identifier: BSD-2-Clause
"""Requests by area of the file system's layout (journal, inode tables, groups), checked against their class.

A request is in the area in which it begins. Area and class are compared where the whole request lies in one
area. The recorded class is not changed: contradictions are counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.measures.block.seeks import Distances, length_sectors
from analysis.rundir.layout import KINDS, Area, Geometry, Groups
from analysis.tables.block import CLASSES as CLASSES
from analysis.tables.block import Block
from analysis.tables.store import I64

# Area kinds that fit each class. Metadata fits a journal: a journal of unknown location is recorded as such.
FITS = {
    "data": {"data", "mixed"},
    "metadata": {"metadata", "mixed", "journal"},
    "journal": {"journal"},
    "unknown": set(KINDS),
    # of a volume's own sectors: no file system's layout says what is there
    "volume": set(KINDS),
    "parity": set(KINDS),
}
TOP_GROUPS = 12
AT_ONCE = 1 << 20
DEFINITION = (
    "area: part of the file system's layout, read from the device after the run; a read or write belongs to"
    " the area in which it begins. META: requests that the file system flagged as metadata. class: by the"
    " owner of the request's memory (see throughput); class journal: by the area. seeks: seeks into the area."
)


@dataclass(frozen=True)
class AreaRow:
    """One area, on all devices. by_class: requests in the order of CLASSES."""

    area: Area
    requests: int
    read_bytes: int
    write_bytes: int
    seeks: int
    of_all: float | None  # share of all seeks, 0..1
    meta: int  # requests flagged META
    by_class: tuple[int, ...]


@dataclass(frozen=True)
class Conflict:
    """Requests wholly inside an area that does not fit their class. flagged: requests with META."""

    class_: str
    area: Area
    requests: int
    bytes: int
    flagged: int


@dataclass(frozen=True)
class GroupRow:
    """One block group, allocation group or segment."""

    number: int
    requests: int
    bytes: int
    seeks: int


@dataclass(frozen=True)
class GroupTable:
    """The groups with most bytes, by number. used: groups with requests; groups: all groups."""

    dev: int
    name: str
    rows: list[GroupRow]
    used: int
    groups: int


@dataclass(frozen=True)
class AreaResults:
    """Requests by area and by group, and contradictions of area and class.

    class_by_area: requests of unknown class by the class that their area implies; "": the area implies none.
    compared: requests of data and metadata whose class was compared with their area. A journal's class comes
    from the area itself.
    """

    rows: list[AreaRow]
    conflicts: list[Conflict]
    compared: int
    journal: int  # requests in journal areas
    journal_meta: int  # requests in journal areas flagged META
    class_by_area: dict[str, int]
    crossing: int  # requests that begin in one area and end in another
    groups: list[GroupTable]


class _Counts:
    """Requests and bytes by area, class and four flags: is a write, wholly inside the area, a seek, META."""

    def __init__(self, areas: int) -> None:
        self.shape = (areas, len(CLASSES), 2, 2, 2, 2)
        self.requests = np.zeros(self.shape, dtype=np.int64)
        self.bytes = np.zeros(self.shape)

    def add(self, area: I64, class_: I64, flags: list[npt.NDArray[np.bool_]], size: I64) -> None:
        """Add some requests."""
        code = area * len(CLASSES) + class_
        for flag in flags:
            code = code * 2 + flag
        cells = self.requests.size
        self.requests += np.bincount(code, minlength=cells).reshape(self.shape)
        self.bytes += np.bincount(code, size, cells).reshape(self.shape)


def measure_areas(block: Block, distances: Distances, geometry: Geometry) -> AreaResults | None:
    """Requests by area; None: the layout is not known, or none of its devices has requests."""
    if not geometry.devices or not distances.rows.size:
        return None
    class_of_label = np.array(
        [
            CLASSES.index(label) if label in CLASSES else CLASSES.index("unknown")
            for label in block.class_.labels
        ]
        or [CLASSES.index("unknown")]
    )
    is_write, is_seek, is_meta = block.op.is_("write"), distances.is_seek, block.is_meta()
    counts = _Counts(len(geometry.areas))
    groups = {
        dev: [_GroupCounts(device_groups) for device_groups in device_map.groups]
        for dev, device_map in geometry.devices.items()
    }
    has_requests = False
    for at in range(0, distances.rows.size, AT_ONCE):
        rows = distances.rows[at : at + AT_ONCE]
        sector, size, dev = block.sector[rows], block.bytes[rows], block.dev[rows]
        end = sector + length_sectors(block, rows)
        area = np.zeros(rows.size, dtype=np.int64)
        is_inside = np.ones(rows.size, dtype=np.bool_)
        seek = is_seek[at : at + AT_ONCE]
        for number, device_map in geometry.devices.items():
            on_device = np.flatnonzero(dev == number)
            if not on_device.size:
                continue
            has_requests = True
            first = np.maximum(np.searchsorted(device_map.edges, sector[on_device], side="right") - 1, 0)
            area[on_device] = device_map.areas[first]
            next_edge = np.append(device_map.edges[1:], np.iinfo(np.int64).max)
            is_inside[on_device] = end[on_device] <= next_edge[first]
            for group_counts in groups[number]:
                group_counts.add(sector[on_device], size[on_device], seek[on_device])
        class_ = class_of_label[block.class_.codes[rows]]
        counts.add(area, class_, [is_write[rows], is_inside, seek, is_meta[rows]], size)
    if not has_requests:
        return None
    tables = [
        group_counts.table(dev)
        for dev, counts_of_device in groups.items()
        for group_counts in counts_of_device
    ]
    return _area_results(counts, geometry, [table for table in tables if table.used])


def _area_results(counts: _Counts, geometry: Geometry, groups: list[GroupTable]) -> AreaResults:
    requests, moved_bytes = counts.requests, counts.bytes
    by_class = requests.sum(axis=(2, 3, 4, 5))
    seeks = requests[:, :, :, :, 1].sum(axis=(1, 2, 3, 4))
    meta = requests[..., 1].sum(axis=(1, 2, 3, 4))
    read, written = (moved_bytes[:, :, i].sum(axis=(1, 2, 3, 4)) for i in (0, 1))
    rows = [
        AreaRow(
            area=area,
            requests=int(by_class[i].sum()),
            read_bytes=int(read[i]),
            write_bytes=int(written[i]),
            seeks=int(seeks[i]),
            of_all=int(seeks[i]) / int(seeks.sum()) if seeks.any() else None,
            meta=int(meta[i]),
            by_class=tuple(int(n) for n in by_class[i]),
        )
        for i, area in enumerate(geometry.areas)
        if by_class[i].any()
    ]
    rows.sort(key=lambda row: -(row.read_bytes + row.write_bytes))
    inside = requests[:, :, :, 1].sum(axis=(2, 3, 4))
    unknown = CLASSES.index("unknown")
    conflicts = []
    class_by_area: dict[str, int] = {}
    for i, area in enumerate(geometry.areas):
        for j, class_ in enumerate(CLASSES):
            number = int(inside[i, j])
            if j == unknown and number:
                area_class = area.kind if area.kind in CLASSES else ""
                class_by_area[area_class] = class_by_area.get(area_class, 0) + number
            elif number and i and area.kind not in FITS[class_]:
                flagged = int(requests[i, j, :, 1, :, 1].sum())
                conflicts.append(Conflict(class_, area, number, int(moved_bytes[i, j, :, 1].sum()), flagged))
    if crossing := int(by_class[:, unknown].sum() - inside[:, unknown].sum()):
        class_by_area[""] = class_by_area.get("", 0) + crossing
    conflicts.sort(key=lambda conflict: -conflict.requests)
    journal = [row for row in rows if row.area.kind == "journal"]
    of_pages = [CLASSES.index("data"), CLASSES.index("metadata")]
    return AreaResults(
        rows=rows,
        conflicts=conflicts,
        compared=int(inside[1:, of_pages].sum()),
        journal=sum(row.requests for row in journal),
        journal_meta=sum(row.meta for row in journal),
        class_by_area=class_by_area,
        crossing=int(requests[:, :, :, 0].sum()),
        groups=groups,
    )


class _GroupCounts:
    """Requests, bytes and seeks by group of one device."""

    def __init__(self, groups: Groups) -> None:
        self.of = groups
        self.groups = min(max(-(-(groups.end - groups.first) // groups.sectors), 1), 1 << 24)
        self.requests = np.zeros(0, dtype=np.int64)  # grows to the last group with a request
        self.bytes = np.zeros(0)
        self.seeks = np.zeros(0, dtype=np.int64)

    def add(self, sector: I64, size: I64, seek: npt.NDArray[np.bool_]) -> None:
        """Add some requests of the device."""
        group = (sector - self.of.first) // self.of.sectors
        inside = (group >= 0) & (group < self.groups) & (sector < self.of.end)
        if not inside.any():
            return
        group, size, seek = group[inside], size[inside], seek[inside]
        groups = max(int(group.max()) + 1, self.requests.size)
        self.requests = np.bincount(group, minlength=groups) + _longer(self.requests, groups)
        self.bytes = np.bincount(group, size, groups) + _longer(self.bytes, groups)
        self.seeks = np.bincount(group[seek], minlength=groups) + _longer(self.seeks, groups)

    def table(self, dev: int) -> GroupTable:
        """The TOP_GROUPS groups with most bytes."""
        used = np.flatnonzero(self.requests)
        top = np.sort(used[np.argsort(-self.bytes[used], kind="stable")][:TOP_GROUPS])
        rows = [GroupRow(int(i), int(self.requests[i]), int(self.bytes[i]), int(self.seeks[i])) for i in top]
        return GroupTable(dev, self.of.name, rows, int(used.size), self.groups)


def _longer(values: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    return np.pad(values, (0, length - values.size))
