# SPDX-License-Identifier: BSD-2-Clause
"""The file system's layout on its devices: run.json's filesystem.geometry, checked.

workloads/filesystems/layout/README.md defines its keys. Broken entries are left out, and run.missing says so.
A run that only states the journal's extents has one area.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.rundir.device_number import device_number
from analysis.rundir.run import Run, as_int, clean, dig
from analysis.tables.store import I64

KINDS = ("journal", "metadata", "data", "mixed", "unused")
OUTSIDE = "outside the file system"
MOST_EXTENTS = 200_000
MOST_AREAS = 100
MOST_SECTOR = 1 << 53
NAME_LETTERS = 40
Piece = tuple[int, int, int]  # first sector, end, area


@dataclass(frozen=True)
class Area:
    """Sectors of one purpose (inode tables, log, ...), on any device."""

    name: str
    kind: str


@dataclass(frozen=True)
class Groups:
    """Allocation groups or block groups: equal parts of a device, the first one at sector `first`."""

    name: str
    first: int
    sectors: int
    end: int


@dataclass
class DeviceMap:
    """One device: sectors [edges[i], edges[i + 1]) belong to area areas[i]."""

    edges: I64
    areas: I64
    groups: list[Groups] = field(default_factory=list)

    def pieces(self) -> list[Piece]:
        """The pieces that belong to the file system, in the order of sectors."""
        ends = self.edges[1:]
        return [
            (int(a), int(b), int(area))
            for a, b, area in zip(self.edges[:-1], ends, self.areas[:-1], strict=True)
            if area != 0
        ]


@dataclass
class Geometry:
    """The layout. areas[0]: sectors outside the file system, or of unknown purpose.

    why_not: the reason why the layout is not known; empty if it is.
    """

    areas: list[Area] = field(default_factory=lambda: [Area(OUTSIDE, "unused")])
    devices: dict[int, DeviceMap] = field(default_factory=dict)
    why_not: str = ""


def read_geometry(run: Run) -> Geometry:
    """Read the layout of a run. Broken entries add a sentence to run.missing."""
    stated = dig(run.facts, "filesystem", "geometry")
    geometry = Geometry()
    if not isinstance(stated, Mapping):
        geometry.why_not = (
            "an imported trace does not state it" if run.imported else "run.json does not state it"
        )
        return geometry
    geometry.why_not = clean(stated["why_not"], 300) if isinstance(stated.get("why_not"), str) else ""
    reader = _Reader(geometry)
    areas, spans = stated.get("areas"), stated.get("spans")
    if areas is None and spans is None:
        areas = _journal_alone(run, stated)
        geometry.areas[0] = Area("elsewhere", "mixed")
    for area in _list(reader, areas):
        reader.area(area)
    for span in _list(reader, spans):
        reader.span(span)
    reader.finish()
    if reader.broken and not geometry.why_not:
        run.missing.append(
            f"file-system geometry: {reader.broken:,} of its areas are broken or overlap, and are left out"
        )
    if not geometry.devices and not geometry.why_not:
        geometry.why_not = "run.json does not state it"
    return geometry


def _journal_alone(run: Run, stated: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The journal as the one area of an older run."""
    dev, extents = dig(run.facts, "device", "dev"), stated.get("journal")
    if not extents or not isinstance(dev, str):
        return []
    return [{"name": "journal", "kind": "journal", "dev": dev, "extents": extents}]


def _list(reader: _Reader, value: object) -> list[Any]:
    if value is None or isinstance(value, list):
        return (value or [])[:MOST_EXTENTS]
    reader.broken += 1
    return []


class _Reader:
    """Collects pieces and spans by device, and counts broken entries."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.broken = 0
        self._pieces: dict[int, list[Piece]] = {}
        self._spans: dict[int, list[tuple[Piece, Groups | None]]] = {}
        self._left = MOST_EXTENTS

    def _code(self, name: object, kind: object) -> int | None:
        """Number of the area of this name and kind, None if these are invalid."""
        if not isinstance(name, str) or not name or kind not in KINDS:
            return None
        area = Area(clean(name, NAME_LETTERS), str(kind))
        if area not in self.geometry.areas:
            if len(self.geometry.areas) > MOST_AREAS:
                return None
            self.geometry.areas.append(area)
        return self.geometry.areas.index(area)

    def area(self, entry: object) -> None:
        """Read one entry of "areas"."""
        dev = device_number(entry.get("dev")) if isinstance(entry, Mapping) else None
        code = self._code(entry.get("name"), entry.get("kind")) if isinstance(entry, Mapping) else None
        extents = entry.get("extents") if isinstance(entry, Mapping) else None
        if dev is None or code is None or not isinstance(extents, list):
            self.broken += 1
            return
        for extent in extents:
            pair = _pair(*extent) if isinstance(extent, list) and len(extent) == 2 else None
            self._left -= 1
            if pair is None or self._left < 0:
                self.broken += 1
            else:
                self._pieces.setdefault(dev, []).append((*pair, code))

    def span(self, entry: object) -> None:
        """Read one entry of "spans"."""
        if not isinstance(entry, Mapping):
            self.broken += 1
            return
        dev, code = device_number(entry.get("dev")), self._code(entry.get("rest"), entry.get("rest_kind"))
        pair = _pair(entry.get("start_sector"), entry.get("end_sector"))
        if dev is None or code is None or pair is None:
            self.broken += 1
            return
        groups = None
        sectors, first = as_int(entry.get("group_sectors")), as_int(entry.get("first_group_sector"))
        if sectors is not None and first is not None and 0 < sectors < MOST_SECTOR and first >= pair[0]:
            groups = Groups(clean(entry.get("group") or "group", NAME_LETTERS), first, sectors, pair[1])
        self._spans.setdefault(dev, []).append(((*pair, code), groups))

    def finish(self) -> None:
        """Make the map of each device: its areas, and between these what its spans state."""
        for dev in {**self._pieces, **self._spans}:
            pieces = self._disjoint(self._pieces.get(dev, []))
            spans = sorted(self._spans.get(dev, []), key=lambda span: span[0])
            disjoint_spans = self._disjoint([span for span, _ in spans])
            edges, areas = _partition(pieces, disjoint_spans)
            groups = [group for _, group in spans if group is not None]
            self.geometry.devices[dev] = DeviceMap(
                np.array(edges, dtype=np.int64), np.array(areas, dtype=np.int64), groups
            )

    def _disjoint(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces in order, without those that begin inside another."""
        kept: list[Piece] = []
        for piece in sorted(pieces):
            if kept and piece[0] < kept[-1][1]:
                self.broken += 1
            else:
                kept.append(piece)
        return kept


def _pair(start: object, end: object) -> tuple[int, int] | None:
    first, last = as_int(start), as_int(end)
    return (
        (first, last) if first is not None and last is not None and 0 <= first < last < MOST_SECTOR else None
    )


def _partition(pieces: list[Piece], spans: list[Piece]) -> tuple[list[int], list[int]]:
    """Start sectors of a device's pieces, from 0 on, and the area of each piece."""
    cuts = sorted({0, *(p[0] for p in (*pieces, *spans)), *(p[1] for p in (*pieces, *spans))})
    piece_starts, span_starts = [p[0] for p in pieces], [s[0] for s in spans]
    edges: list[int] = []
    areas: list[int] = []
    for cut in cuts:
        code = 0
        for starts, disjoint in ((piece_starts, pieces), (span_starts, spans)):
            at = bisect_right(starts, cut) - 1
            if at >= 0 and cut < disjoint[at][1]:
                code = disjoint[at][2]
                break
        if not areas or areas[-1] != code:
            edges.append(cut)
            areas.append(code)
    return edges, areas
