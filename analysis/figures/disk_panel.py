# SPDX-License-Identifier: BSD-2-Clause
"""Disk maps: bytes by disk offset and time, of writes and of reads, on one axis of offsets.

Each class has an ink, darker for more bytes; a cell with several classes has their mean. Several devices are
bands, one above the other, each with its own offsets.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis import units
from analysis.figures import style
from analysis.figures.axes import Handle
from analysis.measures.block import disk_map
from analysis.measures.block.kinds import kinds
from analysis.measures.common.timeline import F64
from analysis.measures.results import Results
from analysis.rundir.devices import Device
from analysis.tables.block import CLASSES, SECTOR_BYTES, Block, parts

COLUMNS = 440
ROWS = 230
TALL_IN = 2.7
GAP_ROWS = 7  # height of a gap: a stretch of the disk that is left out of the axis
TICK_IN = 0.17  # height of a tick label
MOST_BYTES = 1 << 60  # a larger device size is taken for this
FEW_CELLS = 800  # cells of a map with fewer are drawn three cells wide
OPS = ("write", "read")  # the panels, from the top
LAYERS = (*((op, class_) for op in OPS for class_ in CLASSES), ("write", "discard"))
PART = 1 << 18  # requests added to the maps at a time
PLURAL = {"write": "writes", "read": "reads"}
UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))  # of offsets, the largest first
Rgb = npt.NDArray[np.float64]


def ink(values: F64, low: float, high: float, ramp: tuple[str, str, str]) -> Rgb:
    """The ink of each cell: white for 0 bytes, else on the ramp by log(bytes) between low and high."""
    strength = np.zeros(values.shape)
    some = values > 0
    if high > low:
        strength[some] = (np.log(values[some]) - np.log(low)) / (np.log(high) - np.log(low))
    else:
        strength[some] = 0.5
    stops = np.array([to_rgb(color) for color in ramp])
    color = np.stack([np.interp(strength, (0.0, 0.5, 1.0), stops[:, i]) for i in range(3)], axis=-1)
    color[~some] = 1.0
    return color


def mix(inks: list[Rgb]) -> Rgb:
    """The mean ink of the classes in each cell, so that none hides another."""
    drawn = [(ink < 1.0).any(axis=-1, keepdims=True) for ink in inks]
    count = np.sum(drawn, axis=0)
    total = np.sum([ink * there for ink, there in zip(inks, drawn, strict=True)], axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), 1.0)


def thicken(values: F64) -> F64:
    """Each cell spread over its 8 neighbours, the larger value winning, so that lone cells can be seen."""
    padded = np.pad(values, 1)
    rows, columns = values.shape
    spread = [padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    return np.asarray(np.max(spread, axis=0), dtype=np.float64)


def sizes(devices: list[Device]) -> list[int]:
    """The devices' sizes in sectors; 0: not known."""
    return [min(device.size_bytes or 0, MOST_BYTES) // SECTOR_BYTES for device in devices]


def layer(op: str, class_: str) -> tuple[str, str]:
    """The panel and the class, thus the ink, of a request that moves bytes. Every request has one."""
    if op in disk_map.DISCARDS:
        return "write", "discard"
    if op not in OPS:
        return "write", "unknown"  # rare operations (driver, zone)
    return op, class_ if class_ in CLASSES else "unknown"


Ranges = dict[tuple[str, str], tuple[float, float]]  # fewest and most bytes of a cell, by op and class


def joined_ranges(all_ranges: Iterable[Ranges]) -> Ranges:
    """The ranges over several maps."""
    joined: Ranges = {}
    for ranges in all_ranges:
        for key, (low, high) in ranges.items():
            before = joined.get(key, (low, high))
            joined[key] = (min(low, before[0]), max(high, before[1]))
    return joined


@dataclass(frozen=True)
class DiskPanels:
    """Maps of bytes by op and class, and the axis they share."""

    axis: disk_map.Axis
    names: list[str]  # of the devices, in the axis's order
    maps: dict[str, dict[str, F64]]
    bytes_: dict[str, int]
    start_s: float
    end_s: float
    sizes_known: bool
    strip: dict[str, F64]
    unit: tuple[str, float]

    @classmethod
    def make(
        cls,
        block: Block,
        devices: list[Device],
        results: Results,
        axis: disk_map.Axis | None = None,
        rows: int = ROWS,
    ) -> DiskPanels | None:
        """Compute the maps, on the given axis or one of their own; None if no request moved bytes.

        devices: all that the block table has, in the axis's order. rows: of the map's own axis.
        """
        numbers = [device.number for device in devices]
        if axis is None:
            axis = disk_map.make_axis(disk_map.used(block, numbers), sizes(devices), rows)
        if axis is None:
            return None
        start, end = int(results.timeline.edges_ns[0]), int(results.timeline.edges_ns[-1])
        of_kind = kinds(block)
        # kinds that do not occur are in a layer behind the others, which nobody draws
        layers = np.full(max(len(of_kind.pairs), 1), len(LAYERS))
        for kind in of_kind.of():
            layers[kind] = LAYERS.index(layer(*of_kind.pairs[kind]))
        totals = np.zeros((len(LAYERS), axis.rows, COLUMNS))
        strips = np.zeros((len(LAYERS), ROWS))
        for at in parts(block.rows, PART):
            placed = disk_map.request_cells(block, numbers, axis, start, end, COLUMNS, at)
            of = layers[of_kind.codes[at]]
            totals += disk_map.layered_maps(placed, of, len(LAYERS), axis)
            strips += disk_map.whole_disk(placed, of, len(LAYERS), axis.end, ROWS)
        maps: dict[str, dict[str, F64]] = {op: {} for op in OPS}
        strip: dict[str, F64] = {}
        bytes_ = dict.fromkeys(OPS, 0)
        for (op, class_), total, slim in zip(LAYERS, totals, strips, strict=True):
            if total.any():
                maps[op][class_] = total
                bytes_[op] += int(total.sum())
                strip[class_] = strip.get(class_, 0.0) + slim
        last = dict(zip(axis.device, axis.stretches, strict=True))
        span = max(end - axis.bases[i] for i, (_, end) in last.items()) * SECTOR_BYTES
        unit = next((u for u in UNITS if span >= 2 * u[1]), UNITS[-1])
        known = all(
            size * SECTOR_BYTES >= last[i][1] - axis.bases[i]
            for i, size in enumerate(sizes(devices))
            if i in last
        )
        edges = results.timeline.edges_s
        names = [device.label for device in devices]
        return cls(axis, names, maps, bytes_, float(edges[0]), float(edges[-1]), known, strip, unit)

    def ranges(self) -> Ranges:
        """Fewest and most bytes of a used cell, by op and class: the ends of the ink's ramp."""
        return {
            (op, class_): (float(values[values > 0].min()), float(values.max()))
            for op, maps in self.maps.items()
            for class_, values in maps.items()
            if (values > 0).any()
        }

    def title(self, op: str) -> str:
        """The panel's title, with its unit."""
        return f"Disk offset of {PLURAL[op]}, {self.unit[0]}"

    def absent(self, op: str) -> str:
        """Why the panel is empty; "" if it is not."""
        return "" if self.maps[op] else f"no {PLURAL[op]}"

    def height_in(self, op: str) -> float:
        """Height of the panel, by the op's share of all bytes; one line if the op moved nothing."""
        if not self.maps[op]:
            return 0.28
        other = "read" if op == "write" else "write"
        share = self.bytes_[op] / max(self.bytes_[other], 1)
        return TALL_IN if share >= 0.5 else TALL_IN * (0.62 if share >= 0.02 else 0.35)

    def row_of(self, sector: int) -> float:
        """Vertical position of a sector of the axis, in drawn rows, gaps included."""
        for i, (begin, end) in enumerate(self.axis.stretches):
            rows = int(self.axis.starts[i + 1] - self.axis.starts[i])
            if sector <= end or i == len(self.axis.stretches) - 1:
                within = min(max((sector - begin) / (end - begin), 0.0), 1.0)
                return float(self.axis.starts[i]) + i * GAP_ROWS + within * rows
        return 0.0

    @property
    def height_rows(self) -> int:
        """Height of the drawn axis in rows, gaps included."""
        return self.axis.rows + GAP_ROWS * (len(self.axis.stretches) - 1)

    def _with_gaps(self, picture: Rgb) -> Rgb:
        parts = []
        starts = self.axis.starts
        for i in range(len(self.axis.stretches)):
            if i:
                same = self.axis.device[i - 1] == self.axis.device[i]
                parts.append(np.full((GAP_ROWS, *picture.shape[1:]), 0.93 if same else 0.55))
            parts.append(picture[int(starts[i]) : int(starts[i + 1])])
        return np.concatenate(parts)

    def draw(
        self, ax: Axes, op: str, ranges: Ranges, sparse: Container[tuple[str, str]] | None = None
    ) -> list[Handle]:
        """Draw one op's map with the ink of these ranges; returns the legend's entries.

        sparse: ops and classes whose cells are drawn thick; None: those of which the map has few cells.
        """
        inks: list[Rgb] = []
        handles: list[Handle] = []
        for class_, values in self.maps[op].items():
            low, high = ranges[op, class_]
            is_sparse = np.count_nonzero(values) < FEW_CELLS if sparse is None else (op, class_) in sparse
            shown = thicken(values) if is_sparse else values
            inks.append(ink(shown, low, high, style.CLASS_RAMP[class_]))
            label = f"{class_}\n{units.bytes_(low, 2)}" + (f"–{units.bytes_(high, 2)}" if high > low else "")
            handles.append(Patch(color=style.CLASS[class_], label=label))
        if inks:
            ax.imshow(
                self._with_gaps(mix(inks)),
                origin="lower",
                aspect="auto",
                interpolation="nearest",
                extent=(self.start_s, self.end_s, 0, self.height_rows),
                zorder=0.4,
            )
        ax.set_ylim(-0.02 * self.height_rows, 1.02 * self.height_rows)
        return handles

    def annotate(self, ax: Axes, height_in: float) -> None:
        """Draw the axis: ticks, the sizes of gaps, the names of several devices. height_in: of the panel."""
        ax.set_yticks(*self._ticks(height_in))
        ax.grid(True, color="#00000018")
        if height_in > TALL_IN / 2:
            for i in range(1, len(self.axis.stretches)):
                begin, end = self.axis.stretches[i - 1][1], self.axis.stretches[i][0]
                if self.axis.device[i - 1] == self.axis.device[i]:
                    text = f"no I/O for {units.bytes_((end - begin) * SECTOR_BYTES)}"
                    self._write(ax, 0.5, self.row_of(begin) + GAP_ROWS / 2, text, style.QUIET)
        if len(self.names) > 1:
            for device, stretch in dict(zip(self.axis.device, self.axis.stretches, strict=True)).items():
                top = self.row_of(stretch[1]) - 0.055 / height_in * self.height_rows * 1.5
                self._write(ax, 0.01, top, self.names[device], style.INK)

    @staticmethod
    def _write(ax: Axes, x: float, y: float, text: str, color: str) -> None:
        box = {"facecolor": "#FFFFFFC0", "linewidth": 0, "pad": 0.8} if color == style.INK else None
        ax.text(
            x,
            y,
            text,
            transform=ax.get_yaxis_transform(),
            fontsize=7,
            ha="center" if x == 0.5 else "left",
            va="center",
            color=color,
            bbox=box,
        )

    def _ticks(self, height_in: float) -> tuple[list[float], list[str]]:
        """Rows and labels of round offsets in every stretch, at least a label's height apart."""
        ticks: list[float] = []
        labels: list[str] = []
        most = max(int(height_in * 2.4), 3)
        apart = TICK_IN / height_in * self.height_rows
        factor = SECTOR_BYTES / self.unit[1]
        for (begin, end), device in zip(self.axis.stretches, self.axis.device, strict=True):
            base = self.axis.bases[device]
            share = (self.row_of(end) - self.row_of(begin)) / self.height_rows
            locator = MaxNLocator(nbins=max(int(most * share), 1), steps=[1, 2, 2.5, 5, 10])
            for value in locator.tick_values((begin - base) * factor, (end - base) * factor):
                sector = value / factor + base
                row = self.row_of(int(sector))
                if begin <= sector <= end and (not ticks or row - ticks[-1] >= apart):
                    ticks.append(row)
                    labels.append(f"{value:,.10g}")
        return ticks, labels
