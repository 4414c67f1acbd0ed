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
from analysis.rundir.layout import Area, Geometry, Groups
from analysis.tables.block import CLASSES as CLASSES
from analysis.tables.block import Block
from analysis.tables.store import I64

# What may lie in an area of a kind; a journal is written as metadata where its place was not known before.
FITS = {
    "data": {"data", "mixed"},
    "metadata": {"metadata", "mixed", "journal"},
    "journal": {"journal"},
    "unknown": {"journal", "metadata", "data", "mixed", "unused"},
}
TOP_GROUPS = 12
AT_ONCE = 1 << 20
DEFINITION = (
    "area: part of the file system's layout, read from the device after the run; a read or write is in the"
    " area in which it begins. META: requests that the file system flagged as metadata. class: by the owner"
    " of the request's memory (see throughput); of the journal by the area. seeks: into the area."
)


@dataclass(frozen=True)
class AreaRow:
    """One area, on all devices. by_class: requests in the order of CLASSES."""

    area: Area
    requests: int
    read_bytes: int
    write_bytes: int
    seeks: int
    of_all: float | None  # of all seeks
    meta: int  # flagged
    by_class: tuple[int, ...]


@dataclass(frozen=True)
class Conflict:
    """Requests wholly inside an area that is not for their class. flagged: those with META."""

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
    """The groups with most bytes, by number; used and groups: counts of all groups."""

    dev: int
    name: str
    rows: list[GroupRow]
    used: int
    groups: int


@dataclass(frozen=True)
class Places:
    """told: requests of unknown class by the class that their place gives them, "" where it gives none.

    known: data and metadata (a class that is not from their place) that were compared with their place.
    """

    rows: list[AreaRow]
    conflicts: list[Conflict]
    known: int
    journal: int  # in an area of that kind
    journal_meta: int  # of them, flagged META
    told: dict[str, int]
    across: int  # begin in one area and end in another
    groups: list[GroupTable]


class _Counts:
    """Requests and bytes by area, class, and four truths: is it a write, wholly inside, a seek, META?"""

    def __init__(self, areas: int) -> None:
        self.shape = (areas, len(CLASSES), 2, 2, 2, 2)
        self.requests = np.zeros(self.shape, dtype=np.int64)
        self.bytes = np.zeros(self.shape)

    def add(self, area: I64, class_: I64, truths: list[npt.NDArray[np.bool_]], size: I64) -> None:
        """Add some requests."""
        code = area * len(CLASSES) + class_
        for truth in truths:
            code = code * 2 + truth
        many = self.requests.size
        self.requests += np.bincount(code, minlength=many).reshape(self.shape)
        self.bytes += np.bincount(code, size, many).reshape(self.shape)


def measure_places(block: Block, distances: Distances, geometry: Geometry) -> Places | None:
    """None: the layout is not known, or is of no device with requests."""
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
    groups = {dev: [_GroupCounts(one) for one in of.groups] for dev, of in geometry.devices.items()}
    seen = False
    for at in range(0, distances.rows.size, AT_ONCE):
        rows = distances.rows[at : at + AT_ONCE]
        sector, size, dev = block.sector[rows], block.bytes[rows], block.dev[rows]
        end = sector + length_sectors(block, rows)
        area = np.zeros(rows.size, dtype=np.int64)
        whole = np.ones(rows.size, dtype=np.bool_)
        seek = is_seek[at : at + AT_ONCE]
        for number, of in geometry.devices.items():
            here = np.flatnonzero(dev == number)
            if not here.size:
                continue
            seen = True
            first = np.maximum(np.searchsorted(of.edges, sector[here], side="right") - 1, 0)
            area[here] = of.areas[first]
            next_edge = np.append(of.edges[1:], np.iinfo(np.int64).max)
            whole[here] = end[here] <= next_edge[first]
            for one in groups[number]:
                one.add(sector[here], size[here], seek[here])
        class_ = class_of_label[block.class_.codes[rows]]
        counts.add(area, class_, [is_write[rows], whole, seek, is_meta[rows]], size)
    if not seen:
        return None
    tables = [one.table(dev) for dev, several in groups.items() for one in several]
    return _places(counts, geometry, [one for one in tables if one.used])


def _places(counts: _Counts, geometry: Geometry, groups: list[GroupTable]) -> Places:
    requests, size = counts.requests, counts.bytes
    by_class = requests.sum(axis=(2, 3, 4, 5))
    seeks = requests[:, :, :, :, 1].sum(axis=(1, 2, 3, 4))
    meta = requests[..., 1].sum(axis=(1, 2, 3, 4))
    read, written = (size[:, :, i].sum(axis=(1, 2, 3, 4)) for i in (0, 1))
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
    whole = requests[:, :, :, 1].sum(axis=(2, 3, 4))
    unknown = CLASSES.index("unknown")
    conflicts = []
    told: dict[str, int] = {}
    for i, area in enumerate(geometry.areas):
        for j, class_ in enumerate(CLASSES):
            number = int(whole[i, j])
            if j == unknown and number:
                says = area.kind if area.kind in CLASSES else ""
                told[says] = told.get(says, 0) + number
            elif number and i and area.kind not in FITS[class_]:
                flagged = int(requests[i, j, :, 1, :, 1].sum())
                conflicts.append(Conflict(class_, area, number, int(size[i, j, :, 1].sum()), flagged))
    if left := int(by_class[:, unknown].sum() - whole[:, unknown].sum()):
        told[""] = told.get("", 0) + left
    conflicts.sort(key=lambda one: -one.requests)
    journal = [row for row in rows if row.area.kind == "journal"]
    of_pages = [CLASSES.index("data"), CLASSES.index("metadata")]
    return Places(
        rows=rows,
        conflicts=conflicts,
        known=int(whole[1:, of_pages].sum()),
        journal=sum(row.requests for row in journal),
        journal_meta=sum(row.meta for row in journal),
        told=told,
        across=int(requests[:, :, :, 0].sum()),
        groups=groups,
    )


class _GroupCounts:
    """Requests by group of one device."""

    def __init__(self, of: Groups) -> None:
        self.of = of
        self.groups = min(max(-(-(of.end - of.first) // of.sectors), 1), 1 << 24)
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
        many = max(int(group.max()) + 1, self.requests.size)
        self.requests = np.bincount(group, minlength=many) + _longer(self.requests, many)
        self.bytes = np.bincount(group, size, many) + _longer(self.bytes, many)
        self.seeks = np.bincount(group[seek], minlength=many) + _longer(self.seeks, many)

    def table(self, dev: int) -> GroupTable:
        """Those with most bytes."""
        used = np.flatnonzero(self.requests)
        top = np.sort(used[np.argsort(-self.bytes[used], kind="stable")][:TOP_GROUPS])
        rows = [GroupRow(int(i), int(self.requests[i]), int(self.bytes[i]), int(self.seeks[i])) for i in top]
        return GroupTable(dev, self.of.name, rows, int(used.size), self.groups)


def _longer(values: npt.NDArray[Any], many: int) -> npt.NDArray[Any]:
    return np.pad(values, (0, many - values.size))
