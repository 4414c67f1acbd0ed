# SPDX-License-Identifier: BSD-2-Clause
"""Requests of each device by time and offset: exact counts, in a map of at most 2,000 by 1,000 cells.

A request counts in the cell of its issue and of its first byte. The map reaches from the first to the last
offset with I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from analysis.figures import style
from analysis.measures.block.disk_map import DISCARDS
from analysis.page import request_bins as binned
from analysis.page.colors import on_dark
from analysis.page.columns import EXACT, Column, deflated_bytes
from analysis.page.data import Area, Asked, Content, MapKind, OffsetMap, Part
from analysis.page.request_bins import Grid
from analysis.page.requests import Requests, asked_of_volumes, disks_of
from analysis.page.static import mark_of
from analysis.rundir.devices import Device, with_requests
from analysis.rundir.layout import Geometry
from analysis.rundir.run import clean
from analysis.tables.block import SECTOR_BYTES, parts
from analysis.tables.store import I64, Ints

SHARE = 0.20  # of the page's bytes, all maps together
TIME_BINS, OFFSET_BINS = 2000, 1000
MOST_MAPS = 16
MOST_AREAS = 500  # of a map
DRAWN_AREAS = ("journal", "metadata")
LEAST_BIN_SECTORS = 8
PART_ROWS = 1 << 18
MOST_COUNTED = 1 << 22  # cells of all kinds that a part of the requests may touch
MOST_SECTOR = EXACT // SECTOR_BYTES


@dataclass(frozen=True)
class _Counts:
    """Requests by cell of one device: cell is (kind * time bins + time bin) * offset bins + offset bin."""

    grid: Grid
    first_sector: int
    bin_sectors: int
    offset_bins: int
    cell: I64  # ascending
    count: I64

    @property
    def kind(self) -> I64:
        """Kind of each cell."""
        return self.cell // (self.grid.bins * self.offset_bins)

    def joined(self) -> _Counts:
        """The counts in bins of twice the length; in offsets, too, where these are finer than the time."""
        offset, rest = self.cell % self.offset_bins, self.cell // self.offset_bins
        time, kind = rest % self.grid.bins, rest // self.grid.bins
        grid, bin_sectors, offset_bins = self.grid, self.bin_sectors, self.offset_bins
        if grid.bins > 2 * offset_bins:
            grid, time = grid.joined(), time // 2
        else:
            bin_sectors, offset_bins, offset = 2 * bin_sectors, -(-offset_bins // 2), offset // 2
        cell, place = np.unique((kind * grid.bins + time) * offset_bins + offset, return_inverse=True)
        count = np.bincount(place, self.count, cell.size).astype(np.int64)
        return _Counts(grid, self.first_sector, bin_sectors, offset_bins, cell, count)

    def columns(self, kinds: int) -> tuple[list[Column], list[Column]]:
        """Cells and counts of each kind."""
        cells = self.grid.bins * self.offset_bins
        cut = np.searchsorted(self.cell, np.arange(kinds + 1, dtype=np.int64) * cells)
        at = [slice(int(a), int(b)) for a, b in pairwise(cut)]
        return (
            [Column(self.cell[of] - kind * cells, "du") for kind, of in enumerate(at)],
            [Column(self.count[of]) for of in at],
        )

    def deflated_bytes(self, kinds: int) -> int:
        """Size in the page, before base64."""
        cells, counts = self.columns(kinds)
        return deflated_bytes([*cells, *counts])


def _placed(requests: Requests, device: int, at: slice, is_alone: bool) -> tuple[I64, I64, I64]:
    """Rows of the slice that move or discard bytes on the device at a possible sector, time and sector."""
    block = requests.block
    sector = block.sector[at]
    wanted = (block.bytes[at] > 0) & (sector >= 0) & (sector < MOST_SECTOR) & requests.is_shown(at)
    if not is_alone:
        wanted &= block.dev[at] == device
    rows = np.flatnonzero(wanted)
    return rows, block.issue_ns[at][rows] - requests.zero_ns, sector[rows].astype(np.int64)


def _counts(requests: Requests, device: int, is_alone: bool) -> _Counts | None:
    """Requests by cell; None: the device has none that move bytes."""
    block, kinds = requests.block, requests.kinds
    low, high = MOST_SECTOR, -1
    for at in parts(block.rows, PART_ROWS):
        _, _, sector = _placed(requests, device, at, is_alone)
        if sector.size:
            low, high = min(low, int(sector.min())), max(high, int(sector.max()))
    if high < 0:
        return None
    low = low // LEAST_BIN_SECTORS * LEAST_BIN_SECTORS
    bin_sectors = -(-(high + 1 - low) // (OFFSET_BINS * LEAST_BIN_SECTORS)) * LEAST_BIN_SECTORS
    offset_bins = -(-(high + 1 - low) // bin_sectors)
    grid = binned.make_grid(requests.grid.start_ns, requests.grid.end_ns, TIME_BINS)
    cells = grid.bins * offset_bins
    found = np.zeros((kinds.count, cells), dtype=np.int32)
    for at in parts(block.rows, PART_ROWS):
        rows, time, sector = _placed(requests, device, at, is_alone)
        cell = grid.bin(time) * offset_bins + (sector - low) // bin_sectors
        if cell.size:
            _count(found, kinds.codes[at][rows], cell)
    used = [np.flatnonzero(of_kind) for of_kind in found]
    return _Counts(
        grid,
        low,
        bin_sectors,
        offset_bins,
        np.concatenate([cell + kind * cells for kind, cell in enumerate(used)]).astype(np.int64),
        np.concatenate([of_kind[cell] for of_kind, cell in zip(found, used, strict=True)]).astype(np.int64),
    )


def _count(found: npt.NDArray[np.int32], kind: Ints, cell: I64) -> None:
    """Add requests to the counts by kind and cell."""
    low = int(cell.min())  # requests are nearly in the order of time: few cells a part
    cells = int(cell.max()) - low + 1
    kinds = found.shape[0]
    if cells * kinds <= MOST_COUNTED:
        counts = np.bincount(kind * np.int64(cells) + (cell - low), minlength=kinds * cells)
        found[:, low : low + cells] += counts.reshape(kinds, cells).astype(np.int32)
    else:
        np.add.at(found, (kind, cell), 1)


def _kinds(requests: Requests) -> list[MapKind]:
    ops, classes = requests.kinds.labels
    kinds = []
    for op_code, class_code in zip(ops.codes.values.tolist(), classes.codes.values.tolist(), strict=True):
        op, class_ = ops.words[op_code], classes.words[class_code]
        shade = "discard" if op in DISCARDS else class_ if class_ in style.CLASS_RAMP else "unknown"
        ramp = style.CLASS_RAMP[shade]
        kinds.append(MapKind(op, class_, " ".join(ramp), on_dark(ramp[1])))
    return kinds


def _areas(geometry: Geometry, device: int, counts: _Counts) -> list[Area]:
    """Journals and metadata of the file system within the map; those that share a bin of offsets as one."""
    device_map = geometry.devices.get(device)
    if device_map is None:
        return []
    low = counts.first_sector
    high = low + counts.offset_bins * counts.bin_sectors
    areas: list[Area] = []
    for start, end, number in device_map.pieces():
        area = geometry.areas[number]
        if area.kind not in DRAWN_AREAS or end <= low or start >= high:
            continue
        before = areas[-1] if areas else None
        if (
            before is not None
            and (before.name, before.kind) == (area.name, area.kind)
            and start * SECTOR_BYTES - before.to_byte < counts.bin_sectors * SECTOR_BYTES
        ):
            areas[-1] = Area(area.name, area.kind, before.from_byte, end * SECTOR_BYTES)
        else:
            areas.append(Area(area.name, area.kind, start * SECTOR_BYTES, end * SECTOR_BYTES))
    areas.sort(key=lambda area: area.from_byte - area.to_byte)
    return sorted(areas[:MOST_AREAS], key=lambda area: area.from_byte)


def _maps(asked: Asked, requests: Requests, most_bytes: int) -> tuple[list[OffsetMap], list[str]]:
    """The maps of the devices, and what is not in them."""
    devices = with_requests(asked.source.run, requests.block)
    kinds = _kinds(requests)
    maps, left_out = [], []
    if len(devices) > MOST_MAPS:
        left_out.append(f"maps of {len(devices) - MOST_MAPS:,} devices beyond the first {MOST_MAPS}")
    shown = devices[:MOST_MAPS]
    for device in shown:
        counts = _counts(requests, device.number, len(devices) == 1)
        if counts is None:
            continue
        while counts.grid.bins > 1 and counts.deflated_bytes(len(kinds)) > most_bytes / len(shown):
            counts = counts.joined()
        maps.append(_map(asked, requests, device, counts, kinds))
    drawn = sum(int(one.values.sum()) for made in maps for one in made.count)
    where = "volumes" if requests.is_bios else "disks"
    if len(devices) <= MOST_MAPS and (without := requests.block.rows - requests.outside - drawn):
        left_out.append(
            f"{without:,} requests without an offset (flushes) are not in the maps of the {where}"
        )
    return maps, left_out


def _map(
    asked: Asked, requests: Requests, device: Device, counts: _Counts, kinds: Sequence[MapKind]
) -> OffsetMap:
    cells, numbers = counts.columns(len(kinds))
    return OffsetMap(
        dev=device.number,
        name=clean(device.label),
        edges=counts.grid.edges(),
        offset_bins=counts.offset_bins,
        bin_bytes=counts.bin_sectors * SECTOR_BYTES,
        from_byte=counts.first_sector * SECTOR_BYTES,
        kinds=kinds,
        per_kind=[one.count for one in cells],
        cell=cells,
        count=numbers,
        areas=_areas(asked.source.results.geometry, device.number, counts),
        mark=mark_of(asked, "block"),
    )


def make(asked: Asked) -> Content:
    """The maps of the disks and, above them, of the file system's volumes."""
    both = [requests for requests in (asked_of_volumes(asked), disks_of(asked)) if requests is not None]
    maps: list[OffsetMap] = []
    left_out: list[str] = []
    for requests in both:
        if requests.block.rows:
            made, texts = _maps(asked, requests, int(asked.budget.bytes * SHARE / len(both)))
            maps += made
            left_out += texts
    return Content(maps=maps, left_out=left_out)


PART = Part("offset_maps", 130, make)
