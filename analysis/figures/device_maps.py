# SPDX-License-Identifier: BSD-2-Clause
"""Disk maps of several devices: a small map each, one above the other, on one time axis.

All maps have one unit of offsets and one ink: a colour is as many bytes on every device. The busiest
MOST_MAPS devices have maps; the others are named below them, with their share of the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import units
from analysis.figures import disk_panel, style
from analysis.figures.axes import Handle
from analysis.figures.disk_bands import DiskBands
from analysis.figures.disk_panel import DiskPanels
from analysis.figures.whole_disk import draw_whole_disk
from analysis.measures.results import Results
from analysis.render import titles
from analysis.rundir.devices import Device
from analysis.rundir.run import clean
from analysis.rundir.stack import Stack
from analysis.tables.block import TABLE as BLOCK
from analysis.tables.block import Block
from analysis.tables.rows import chosen

MOST_MAPS = 8
HEIGHT_IN = {1: 2.0, 2: 1.3, 3: 1.0, 4: 0.85}  # of a map, by the number of maps
LOW_IN = 0.56  # of more maps
LEAST_IN = 0.34
LABEL_IN = 0.24  # above each map
NOTE_IN = 0.18  # a line below the maps
NONE_IN = 0.28  # without maps
LEAST_ROWS = 70
LINE_LETTERS = 112  # above and below the maps
LABEL_LETTERS = 40  # of a model
NAMED = 6  # devices without a map whose names are said


@dataclass(frozen=True)
class DeviceMap:
    """The maps of one device. label: its name and what it is."""

    label: str
    device: Device
    disk: DiskPanels
    bands: DiskBands | None  # None: no file system's layout is known on this device


@dataclass(frozen=True)
class DeviceMaps:
    """The maps of the busiest devices in the run's order; the other devices, and the bytes of all."""

    maps: list[DeviceMap]
    sparse: set[tuple[str, str]]  # op and class of few cells on the mean device: drawn thick on all
    others: list[str]  # names, the busiest first
    others_bytes: int
    idle: list[str]  # names of devices with no request that moved bytes
    bytes_: dict[str, int]  # of all devices, by op
    what: str  # "disk" or "volume"

    @classmethod
    def make(
        cls, block: Block, devices: Sequence[Device], labels: Sequence[str], results: Results, what: str
    ) -> DeviceMaps | None:
        """Compute the maps; None if no request moved bytes. devices: several, all that the table has."""
        moved = [moved_bytes(block, device.number) for device in devices]
        with_bytes = [i for i, bytes_ in enumerate(moved) if sum(bytes_.values())]
        busiest = sorted(with_bytes, key=lambda i: -sum(moved[i].values()))
        drawn = sorted(busiest[:MOST_MAPS])
        height_in = HEIGHT_IN.get(len(drawn), LOW_IN)
        rows = max(round(disk_panel.ROWS * height_in / disk_panel.TALL_IN), LEAST_ROWS)
        maps: list[DeviceMap] = []
        for i in drawn:
            own = BLOCK.take(block, chosen(block.dev == devices[i].number))
            disk = DiskPanels.make(own, [devices[i]], results, rows=rows)
            if disk is not None:
                bands = DiskBands.make(disk, [devices[i].number], results.geometry)
                maps.append(DeviceMap(labels[i], devices[i], disk, bands))
        if not maps:
            return None
        unit = max((one.disk.unit for one in maps), key=lambda unit: unit[1])
        others = busiest[MOST_MAPS:]
        return cls(
            maps=[replace(one, disk=replace(one.disk, unit=unit)) for one in maps],
            sparse=_sparse([one.disk for one in maps]),
            others=[devices[i].name for i in others],
            others_bytes=sum(sum(moved[i].values()) for i in others),
            idle=[
                device.name for device, bytes_ in zip(devices, moved, strict=True) if not any(bytes_.values())
            ],
            bytes_={op: sum(bytes_[op] for bytes_ in moved) for op in disk_panel.OPS},
            what=what,
        )

    def ranges(self) -> disk_panel.Ranges:
        """Fewest and most bytes of a cell over all devices, by op and class."""
        return disk_panel.joined_ranges([one.disk.ranges() for one in self.maps])

    def title(self, op: str) -> str:
        """The panel's title, with the unit of all maps."""
        return f"{self.maps[0].disk.title(op)}, by {self.what}"

    def absent(self, op: str) -> str:
        """Why the panel is empty; "" if it is not."""
        return "" if self._of(op) else f"no {disk_panel.PLURAL[op]}"

    def note(self, op: str) -> str:
        """The devices that have no map of this op."""
        parts = []
        if self.others:
            share = units.percent(self.others_bytes / max(sum(self.bytes_.values()), 1))
            parts.append(f"{len(self.others)} more with {share} % of all bytes: {named(self.others)}")
        without = [one.device.name for one in self.maps if not one.disk.maps[op]]
        if without:
            parts.append(f"no {disk_panel.PLURAL[op]}: {named(without)}")
        if self.idle:
            parts.append(f"no request moved any bytes: {named(self.idle)}")
        return "; ".join(parts)

    def height_in(self, op: str) -> float:
        """Height of the whole panel."""
        if not self._of(op):
            return NONE_IN
        note_in = NOTE_IN if self.note(op) else 0.0
        return len(self._of(op)) * (self._map_in(op) + LABEL_IN) + note_in

    def _of(self, op: str) -> list[DeviceMap]:
        return [one for one in self.maps if one.disk.maps[op]]

    def _map_in(self, op: str) -> float:
        """Height of a map, by the op's share of all bytes."""
        full_in = HEIGHT_IN.get(len(self.maps), LOW_IN)
        other = "read" if op == "write" else "write"
        share = self.bytes_[op] / max(self.bytes_[other], 1)
        return full_in if share >= 0.5 else max(full_in * (0.62 if share >= 0.02 else 0.35), LEAST_IN)

    def draw(self, ax: Axes, op: str, plot_in: float) -> list[Handle]:
        """Draw the maps of an op in the panel `ax`, each on its own axes; returns the legend's entries."""
        figure = ax.figure
        assert isinstance(figure, Figure)
        _hide(ax)
        box = ax.get_position()
        inch = box.height / self.height_in(op)
        map_in, ranges = self._map_in(op), self.ranges()
        handles: dict[str, Handle] = {}
        top = box.y1
        for one in self._of(op):
            moved = units.bytes_(float(one.disk.bytes_[op]))
            done = "read" if op == "read" else "written"
            label = titles.cut(f"{one.label} · {moved} {done}", LINE_LETTERS)
            top -= LABEL_IN * inch
            figure.text(box.x0, top + 0.035 * inch, label, fontsize=8, color=style.INK, va="bottom")
            top -= map_in * inch
            small = figure.add_axes((box.x0, top, box.width, map_in * inch), sharex=ax)
            for handle in one.disk.draw(small, op, ranges, self.sparse):
                handles.setdefault(str(handle.get_label()), handle)
            one.disk.annotate(small, map_in)
            if one.bands is not None:
                one.bands.draw(small, one.disk, op, plot_in, map_in)
            small.tick_params(axis="x", labelbottom=False)
            draw_whole_disk(one.disk, figure, [small], word="")
        if note := titles.cut(self.note(op), LINE_LETTERS):
            figure.text(box.x0, box.y0 + 0.04 * inch, note, fontsize=8, color=style.QUIET, va="center")
        return sorted(handles.values(), key=lambda handle: _rank(handle, op))


def _sparse(disks: Sequence[DiskPanels]) -> set[tuple[str, str]]:
    """The op and class of which a map has FEW_CELLS at most, on the mean of the devices that have any."""
    cells: dict[tuple[str, str], list[int]] = {}
    for disk in disks:
        for op, maps in disk.maps.items():
            for class_, values in maps.items():
                cells.setdefault((op, class_), []).append(int(np.count_nonzero(values)))
    return {key for key, counts in cells.items() if sum(counts) / len(counts) < disk_panel.FEW_CELLS}


def _rank(handle: Handle, op: str) -> int:
    """The place of a class in the legend; its entry's label begins with the class."""
    return disk_panel.LAYERS.index((op, str(handle.get_label()).partition("\n")[0]))


def _hide(ax: Axes) -> None:
    """Leave the panel's title alone; the maps have axes of their own."""
    ax.set_yticks([])
    ax.grid(False)
    ax.patch.set_visible(False)
    ax.tick_params(axis="x", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def moved_bytes(block: Block, number: int) -> dict[str, int]:
    """Bytes that a device's requests moved or discarded, by the op of the panel."""
    on_device = block.dev == number
    sums = np.bincount(block.op.codes[on_device], block.bytes[on_device], len(block.op.labels))
    moved = dict.fromkeys(disk_panel.OPS, 0)
    for op, total in zip(block.op.labels, sums, strict=True):
        moved[disk_panel.layer(op, "")[0]] += int(total)
    return moved


def device_label(device: Device, stack: Stack) -> str:
    """What a small map is of: name and role, what the device is, and its size."""
    node = stack.nodes.get(device.name)
    facts = device.facts if node is None else node.facts
    words = [facts.get("model")] if facts.get("model") else [facts.get("kind"), facts.get("level")]
    parts = [
        device.label,
        node.label if node is not None and node.label not in (node.name, f"/dev/{node.name}") else "",
        " ".join(clean(word, LABEL_LETTERS) for word in words if isinstance(word, str)),
        units.bytes_(device.size_bytes) if device.size_bytes else "size not known",
    ]
    return " · ".join(part for part in parts if part)


def named(names: Sequence[str]) -> str:
    """The names, those beyond NAMED as a number."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
