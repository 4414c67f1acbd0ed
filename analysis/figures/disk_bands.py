# SPDX-License-Identifier: BSD-2-Clause
"""What the file system keeps where, beside and over the disk maps: a slim strip at their right edge in the
colours of the classes (journal darkest, metadata, data; pale grey: any of them; white: nothing), the larger
areas named, and faint lines where groups begin. Heights are those of the map, with what it leaves out."""

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

LEFT, RIGHT = 1.003, 1.0145  # of the panel's width
COLOR = {**style.CLASS, "mixed": "#E2E2E2", "unused": "#FFFFFF"}
# What is drawn over what.
ORDER = ("unused", "mixed", "data", "metadata", "journal")
LABEL_IN = 0.125  # height of a label
LETTER_IN = 0.053
NAMED_IN = 0.03  # an area less high has no name, but the journal
THIN_IN = 0.016  # an area is drawn at least so high
MOST_GROUPS = 60  # in the map: more have neither lines nor numbers
ABBREVIATED = {"allocation group": "AG", "block group": "BG"}


Truths = npt.NDArray[np.bool_]
Begin = tuple[float, int, bool]  # row, number; does the group begin there, or only the map?


@dataclass(frozen=True)
class Band:
    """Part of an area, in rows of the map."""

    low: float
    high: float
    area: Area


@dataclass(frozen=True)
class DiskBands:
    """bands: in the order of drawing. groups: where each begins, and its number, by their name."""

    bands: list[Band]
    groups: dict[str, list[Begin]]

    @classmethod
    def make(cls, disk: DiskPanels, numbers: list[int], known: Geometry) -> DiskBands | None:
        """numbers: of the devices, in the order of the map's axis. None where nothing is known of any."""
        bands: list[Band] = []
        groups: dict[str, list[Begin]] = {}
        axis = disk.axis
        for i, (begin, end) in enumerate(axis.stretches):
            device = known.devices.get(numbers[axis.device[i]])
            if device is None:
                continue
            base = axis.bases[axis.device[i]]
            places = np.array([begin, end], dtype=np.float64) - base
            first = float(axis.starts[i]) + i * GAP_ROWS
            rows = np.array([first, first + float(axis.starts[i + 1] - axis.starts[i])])
            bands += _bands(device, known.areas, places, rows)
            for name, found in _groups(device, places, rows):
                groups.setdefault(name, []).extend(found)
        bands.sort(key=lambda band: (ORDER.index(band.area.kind), band.low))
        few = {name: found for name, found in groups.items() if len(found) <= MOST_GROUPS}
        return cls(bands, few) if bands else None

    def draw(self, ax: Axes, disk: DiskPanels, op: str, width_in: float, height_in: float) -> None:
        """Draw all of it beside and over an op's panel of this size."""
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
        """Name the areas, the journal first: at the right edge, or left of it so as to hide no requests."""
        taken: list[float] = []
        bottom, top = ax.get_ylim()
        for kind in ("journal", "metadata", "data"):
            named = [b for b in self.bands if b.area.kind == kind]
            # of an area in several parts the largest is named, and every other one as high as a label
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
                x = _free_place(occupied, at - half, at + half, share)
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
        """Faint lines where groups begin, numbered at the left as far as there is room."""
        for name, found in self.groups.items():
            short = ABBREVIATED.get(name, name)
            height, top = LABEL_IN * inch, ax.get_ylim()[1]
            last = -inch
            rows = sorted(found)
            for i, (row, number, begins) in enumerate(rows):
                if begins:
                    ax.axhline(row, color="#000000", lw=0.4, alpha=0.28, ls=(0, (1, 2)), zorder=0.6)
                elif i + 1 < len(rows) and rows[i + 1][0] - row < height:
                    continue  # only its end is in the map
                if row - last < height or row + height > top:
                    continue
                last = row
                share = (len(f"{short} {number}") * LETTER_IN + 0.05) / width_in
                ax.text(
                    1 - _free_place(occupied[:, ::-1], row, row + height, share),
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
    """Where the op's map has anything, in drawn rows (gaps included) and columns."""
    there = np.sum([values > 0 for values in disk.maps[op].values()], axis=0) > 0
    parts = []
    for i, (first, end) in enumerate(pairwise(disk.axis.starts.tolist())):
        if i:
            parts.append(np.zeros((GAP_ROWS, there.shape[1]), dtype=np.bool_))
        parts.append(there[first:end])
    return np.concatenate(parts)


def _free_place(occupied: Truths, low: float, high: float, share: float) -> float:
    """The right end of a label that hides least, as a share of the width; the first such from the right."""
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


def _bands(device: DeviceMap, areas: list[Area], places: F64, rows: F64) -> list[Band]:
    """The areas in one stretch of the map; neighbours of one area that no eye can tell apart are joined."""
    start, end = device.edges[:-1].astype(np.float64), device.edges[1:].astype(np.float64)
    inside = (device.areas[:-1] != 0) & (start < places[1]) & (end > places[0])
    low = np.interp(start[inside], places, rows)
    high = np.interp(end[inside], places, rows)
    found: dict[int, list[tuple[float, float]]] = {}
    for code, a, b in zip(device.areas[:-1][inside].tolist(), low.tolist(), high.tolist(), strict=True):
        parts = found.setdefault(code, [])
        if parts and a - parts[-1][1] < 0.3:
            parts[-1] = (parts[-1][0], b)
        else:
            parts.append((a, b))
    return [Band(a, b, areas[code]) for code, parts in found.items() for a, b in parts]


def _groups(device: DeviceMap, places: F64, rows: F64) -> list[tuple[str, list[Begin]]]:
    """Where groups begin in one stretch of the map, the first at its bottom; none if they are very many."""
    found = []
    for one in device.groups:
        first = max((int(places[0]) - one.first) // one.sectors, 0)
        last = min((int(places[1]) - 1 - one.first) // one.sectors, (one.end - 1 - one.first) // one.sectors)
        if first <= last:
            begin = np.arange(first, min(last, first + MOST_GROUPS) + 1)
            at = np.interp((one.first + begin * one.sectors).astype(np.float64), places, rows)
            begins = one.first + begin * one.sectors >= int(places[0])
            found.append((one.name, list(zip(at.tolist(), begin.tolist(), begins.tolist(), strict=True))))
    return found
