# SPDX-License-Identifier: BSD-2-Clause
"""The file system's areas and its allocation or block groups, beside and over a disk map.

A slim strip at the map's right edge has the colours of the classes (pale grey: any class; white: unused). The
larger areas are named; faint lines show where groups begin. Heights are the map's rows, gaps included.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from analysis.figures import style
from analysis.figures.disk_panel import GAP_ROWS, DiskPanels
from analysis.measures.common.timeline import F64
from analysis.rundir.layout import Area, DeviceMap, Geometry

LEFT, RIGHT = 1.003, 1.0145  # edges of the strip, in panel widths
COLOR = {**style.CLASS, "mixed": "#E2E2E2", "unused": "#FFFFFF"}
# of drawing: later kinds cover earlier ones
ORDER = ("unused", "mixed", "data", "metadata", "journal")
LABEL_IN = 0.125  # height of a label
LETTER_IN = 0.053  # width of a letter
NAMED_IN = 0.03  # a lower area has no name, except the journal
THIN_IN = 0.016  # least height of an area in the strip
MOST_GROUPS = 60  # in a map; more groups are not drawn
ABBREVIATED = {"allocation group": "AG", "block group": "BG"}


Truths = npt.NDArray[np.bool_]
Begin = tuple[float, int, bool]  # row, group number, True: the group begins there (False: the map does)


@dataclass(frozen=True)
class Band:
    """Part of an area, in rows of the map."""

    low: float
    high: float
    area: Area


@dataclass(frozen=True)
class DiskBands:
    """bands: in the order of drawing. groups: begin and number of each group, by the kind of group."""

    bands: list[Band]
    groups: dict[str, list[Begin]]

    @classmethod
    def make(cls, disk: DiskPanels, numbers: list[int], known: Geometry) -> DiskBands | None:
        """numbers: device numbers, in the order of the map's axis. None: no device has a known layout."""
        bands: list[Band] = []
        groups: dict[str, list[Begin]] = {}
        axis = disk.axis
        for i, (begin, end) in enumerate(axis.stretches):
            device = known.devices.get(numbers[axis.device[i]])
            if device is None:
                continue
            base = axis.bases[axis.device[i]]
            sectors = np.array([begin, end], dtype=np.float64) - base
            first = float(axis.starts[i]) + i * GAP_ROWS
            rows = np.array([first, first + float(axis.starts[i + 1] - axis.starts[i])])
            bands += _bands(device, known.areas, sectors, rows)
            for name, begins in _groups(device, sectors, rows):
                groups.setdefault(name, []).extend(begins)
        bands.sort(key=lambda band: (ORDER.index(band.area.kind), band.low))
        drawn = {name: begins for name, begins in groups.items() if len(begins) <= MOST_GROUPS}
        return cls(bands, drawn) if bands else None

    def draw(self, ax: Axes, disk: DiskPanels, op: str, width_in: float, height_in: float) -> None:
        """Draw strip, names and groups beside and over an op's panel of this size."""
        inch = disk.height_rows * 1.04 / height_in  # in rows
        self.draw_strip(ax, disk, height_in)
        occupied = _occupied(disk, op)
        self._draw_groups(ax, occupied, inch, width_in)
        self._name(ax, occupied, inch, width_in)

    def draw_strip(self, ax: Axes, disk: DiskPanels, height_in: float) -> None:
        """Draw the strip alone."""
        inch = disk.height_rows * 1.04 / height_in
        across = ax.get_yaxis_transform()
        strips: dict[str, list[Rectangle]] = {}
        for band in self.bands:
            high = max(band.high - band.low, THIN_IN * inch)
            low = (band.low + band.high - high) / 2
            strips.setdefault(band.area.kind, []).append(Rectangle((LEFT, low), RIGHT - LEFT, high))
        for i, (kind, patches) in enumerate(strips.items()):
            strip = PatchCollection(patches, facecolor=COLOR[kind], edgecolor="none", clip_on=False)
            strip.set_transform(across)
            strip.set_zorder(3 + i / 10)
            ax.add_collection(strip, autolim=False)
        low, high = min(b.low for b in self.bands), max(b.high for b in self.bands)
        frame = Rectangle(
            (LEFT, low), RIGHT - LEFT, high - low, fill=False, ec="#9A9A9A", lw=0.4, clip_on=False
        )
        frame.set_transform(across)
        frame.set_zorder(4)
        ax.add_patch(frame)

    def _name(self, ax: Axes, occupied: Truths, inch: float, width_in: float) -> None:
        """Name the areas, the journal first: at the right edge, or left of it where requests are drawn."""
        taken: list[float] = []
        bottom, top = ax.get_ylim()
        for kind in ("journal", "metadata", "data"):
            named = [b for b in self.bands if b.area.kind == kind]
            # of an area in parts the largest is named, and each other part that is as high as a label
            named.sort(key=lambda band: band.low - band.high)
            seen: set[str] = set()
            for band in named:
                height = band.high - band.low
                enough = NAMED_IN if band.area.name not in seen else LABEL_IN
                if height < enough * inch and kind != "journal":
                    continue
                half = LABEL_IN * inch / 2
                at = min(max((band.low + band.high) / 2, bottom + 1.1 * half), top - 1.1 * half)
                if any(abs(at - other) < 2 * half for other in taken):
                    continue
                seen.add(band.area.name)
                taken.append(at)
                if kind == "journal":
                    for edge in (band.low, band.high):
                        ax.axhline(edge, color=COLOR[kind], lw=0.5, alpha=0.45, zorder=0.6)
                share = (len(band.area.name) * LETTER_IN + 0.05) / width_in
                x = _label_right(occupied, at - half, at + half, share)
                ax.text(
                    x,
                    at,
                    band.area.name,
                    transform=ax.get_yaxis_transform(),
                    fontsize=6.5,
                    ha="right",
                    va="center",
                    color=style.CLASS_RAMP[kind][2],
                    bbox={"facecolor": "#FFFFFFB8", "linewidth": 0, "pad": 0.5},
                    zorder=3,
                )

    def _draw_groups(self, ax: Axes, occupied: Truths, inch: float, width_in: float) -> None:
        """Draw faint lines where groups begin, numbered at the left where there is room."""
        for name, begins_of in self.groups.items():
            short = ABBREVIATED.get(name, name)
            height, top = LABEL_IN * inch, ax.get_ylim()[1]
            last = -inch
            rows = sorted(begins_of)
            for i, (row, number, begins) in enumerate(rows):
                if begins:
                    ax.axhline(row, color="#000000", lw=0.4, alpha=0.28, ls=(0, (1, 2)), zorder=0.6)
                elif i + 1 < len(rows) and rows[i + 1][0] - row < height:
                    continue  # the map shows the end of this group only
                if row - last < height or row + height > top:
                    continue
                last = row
                share = (len(f"{short} {number}") * LETTER_IN + 0.05) / width_in
                ax.text(
                    1 - _label_right(occupied[:, ::-1], row, row + height, share),
                    row,
                    f"{short} {number}",
                    transform=ax.get_yaxis_transform(),
                    fontsize=6,
                    ha="left",
                    va="bottom",
                    color=style.QUIET,
                    bbox={"facecolor": "#FFFFFF90", "linewidth": 0, "pad": 0.3},
                    zorder=0.7,
                )


def _occupied(disk: DiskPanels, op: str) -> Truths:
    """The used cells of the op's map, by drawn row (gaps included) and column."""
    used = np.sum([values > 0 for values in disk.maps[op].values()], axis=0) > 0
    parts = []
    for i, (first, end) in enumerate(pairwise(disk.axis.starts.tolist())):
        if i:
            parts.append(np.zeros((GAP_ROWS, used.shape[1]), dtype=np.bool_))
        parts.append(used[first:end])
    return np.concatenate(parts)


def _label_right(occupied: Truths, low: float, high: float, share: float) -> float:
    """Right end, as a share of the panel's width, of the rightmost label position that hides fewest cells."""
    used: Truths = np.asarray(occupied[max(int(low), 0) : int(high) + 1].any(axis=0))
    columns = used.size
    wide = max(int(share * columns), 1)
    best, fewest = 0.996, columns + 1
    for right in range(columns, int(0.08 * columns) + wide, -max(wide // 4, 1)):
        hidden = int(used[right - wide : right].sum())
        if hidden < fewest:
            best, fewest = min(right / columns, 0.996), hidden
        if not hidden:
            break
    return best


def _bands(device: DeviceMap, areas: list[Area], sectors: F64, rows: F64) -> list[Band]:
    """The areas in one stretch of the map; parts of an area less than 0.3 rows apart are joined."""
    start, end = device.edges[:-1].astype(np.float64), device.edges[1:].astype(np.float64)
    inside = (device.areas[:-1] != 0) & (start < sectors[1]) & (end > sectors[0])
    low = np.interp(start[inside], sectors, rows)
    high = np.interp(end[inside], sectors, rows)
    rows_of: dict[int, list[tuple[float, float]]] = {}
    for code, a, b in zip(device.areas[:-1][inside].tolist(), low.tolist(), high.tolist(), strict=True):
        parts = rows_of.setdefault(code, [])
        if parts and a - parts[-1][1] < 0.3:
            parts[-1] = (parts[-1][0], b)
        else:
            parts.append((a, b))
    return [Band(a, b, areas[code]) for code, parts in rows_of.items() for a, b in parts]


def _groups(device: DeviceMap, sectors: F64, rows: F64) -> list[tuple[str, list[Begin]]]:
    """The begins of groups in one stretch of the map, by kind of group; the first may be the map's begin."""
    begins_of = []
    low, high = int(sectors[0]), int(sectors[1])
    for size in device.groups:
        first = max((low - size.first) // size.sectors, 0)
        last = min((high - 1 - size.first) // size.sectors, (size.end - 1 - size.first) // size.sectors)
        if first <= last:
            begin = np.arange(first, min(last, first + MOST_GROUPS) + 1)
            at = np.interp((size.first + begin * size.sectors).astype(np.float64), sectors, rows)
            begins = size.first + begin * size.sectors >= low
            begins_of.append(
                (size.name, list(zip(at.tolist(), begin.tolist(), begins.tolist(), strict=True)))
            )
    return begins_of
