# SPDX-License-Identifier: BSD-2-Clause
"""The movie as one HTML page: the disk as a grid of cells, which light up when issued to and then fade.

The page holds the packed frames and the script of movie_page/, which draws them. Nothing is fetched; text
from the run is never markup. The page's size is bounded: frames are joined until they fit.
"""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from analysis import units
from analysis.figures import style
from analysis.measures.block import disk_grid, movie_frames
from analysis.measures.block.disk_grid import COLUMNS, Grid, Line
from analysis.measures.block.movie_frames import KINDS, Entries, Frames
from analysis.measures.common.timeline import NICE
from analysis.page.columns import in_script, varints
from analysis.render.templates import templates
from analysis.rundir.layout import Geometry
from analysis.tables.block import SECTOR_BYTES

MOST_PACKED_BYTES = 3_400_000  # 4.5 MB as base64
PACK_LEVEL = 4  # of zlib; 9 takes ten times as long and saves a few percent
FADE_SHARE = 0.02  # of the frames: a cell fades over so many, but at least over LEAST_FADE_FRAMES
LEAST_FADE_FRAMES = 8
LENGTH_S = 30  # of the movie at its first speed
LABEL_EVERY = 4  # rows
MOST_PHASES = 2000
MOST_GROUPS = 100  # group sizes of a device; a device has one
OUTLINED = {"journal": (3, 2), "metadata": (1, 2)}  # kinds of areas, and the dashes of their borders
OPS = ("write", "read", "discard")
PARTS = Path(__file__).parent / "movie_page"
INFLATE = "../../page/scripts/inflate.js"  # the live part of reports reads its data with it, too
SCRIPTS = ("frames.js", INFLATE, "pen.js", "grid.js", "times.js", "controls.js")


@dataclass(frozen=True)
class Phase:
    """A phase of the workload, in seconds of the movie."""

    name: str
    label: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Captions:
    """Texts of the page, and what is drawn beside the frames."""

    title: str
    subtitle: str
    banners: Sequence[str]
    devices: Sequence[str]
    time_axis: str
    mark: str = ""  # "*": requests were lost
    phases: Sequence[Phase] = field(default_factory=list)
    numbers: Sequence[int] = ()  # device numbers, in the order of devices
    geometry: Geometry = field(default_factory=Geometry)


def pack(entries: Entries, frames: int, cells: int) -> bytes:
    """Four deflated columns, which frames.js unpacks: entries per frame, key differences, requests, bytes."""
    key = entries.kind * cells + entries.cell
    distance = np.diff(key, prepend=0)
    first = np.diff(entries.frame, prepend=-1) > 0
    distance[first] = key[first]
    columns = (np.bincount(entries.frame, minlength=frames), distance, entries.requests, entries.bytes)
    return zlib.compress(b"".join(varints(column) for column in columns), PACK_LEVEL)


def fit(frames: Frames) -> tuple[Frames, bytes]:
    """The frames, joined in pairs until they fit into MOST_PACKED_BYTES, and packed."""
    while True:
        packed = pack(frames.entries, frames.count, frames.grid.cells)
        if len(packed) <= MOST_PACKED_BYTES or frames.count == 1:
            return frames, packed
        frames = frames.joined(2)


def cell_size(cell_sectors: int) -> str:
    """The size of a cell, a power of two: "2 MiB"."""
    size = cell_sectors * SECTOR_BYTES
    power = (size.bit_length() - 1) // 10
    return f"{size >> 10 * power} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"


def duration(ns: int) -> str:
    """A length of time: "5 ms", "0.4 s"."""
    unit, factor = next((u for u in (("s", 1e9), ("ms", 1e6)) if ns >= u[1] / 5), ("us", 1e3))
    return f"{ns / factor:,.6g} {unit}"


def _lines(grid: Grid) -> list[dict[str, Any]]:
    """The grid's lines and labels: offsets in one unit per device, with decimals that tell rows apart."""
    lines: list[dict[str, Any]] = []
    row_bytes = grid.cell_sectors * COLUMNS * SECTOR_BYTES
    since = 0
    for i, line in enumerate(grid.lines):
        before = grid.lines[i - 1] if i else None
        since = 0 if before is None or before.is_gap or before.device != line.device else since + 1
        offset = line.first_sector * SECTOR_BYTES
        entry: dict[str, Any] = {"device": line.device, "offset": offset}
        if line.is_gap:
            entry["gap"] = f"no I/O in {units.bytes_(line.sectors * SECTOR_BYTES)}"
        elif since % LABEL_EVERY == 0:
            entry["label"] = _offset(offset, _end_bytes(grid.lines, line.device), row_bytes)
        lines.append(entry)
    return lines


def _end_bytes(lines: Sequence[Line], device: int) -> int:
    """The end of a device's last line, in bytes."""
    return max((line.first_sector + line.sectors) * SECTOR_BYTES for line in lines if line.device == device)


def _offset(offset: int, end: int, row_bytes: int) -> str:
    """The label of an offset in bytes, in the unit that fits `end`."""
    unit, factor = next((u for u in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if end >= 2 * u[1]), ("kB", 1e3))
    decimals = min(max(math.ceil(-math.log10(row_bytes / factor)) + 1, 0), 3)
    return f"{offset / factor:,.{decimals}f} {unit}" if offset else "0"


@dataclass(frozen=True)
class AreaCells:
    """The cells that overlap an area of the file system, as ranges of first and last cell within a row."""

    name: str
    kind: str
    ranges: list[tuple[int, int]]


def area_cells(grid: Grid, geometry: Geometry, numbers: Sequence[int]) -> list[AreaCells]:
    """The cells of each area of the file system. numbers: device numbers, in the grid's order."""
    ranges: dict[int, set[tuple[int, int]]] = {}
    rows = [line for line in grid.lines if not line.is_gap]
    for row, line in enumerate(rows):
        device = geometry.devices.get(numbers[line.device])
        if device is None or not device.edges.size:
            continue
        end = line.first_sector + line.sectors
        begin = max(int(np.searchsorted(device.edges, line.first_sector, side="right")) - 1, 0)
        for i in range(begin, int(np.searchsorted(device.edges, end))):
            # the last piece, behind the file system, has no end
            until = int(device.edges[i + 1]) if i + 1 < device.edges.size else end
            low, high = max(int(device.edges[i]), line.first_sector), min(until, end)
            if low < high and device.areas[i]:
                first, last = (
                    (sector - line.first_sector) // grid.cell_sectors + row * COLUMNS
                    for sector in (low, high - 1)
                )
                ranges.setdefault(int(device.areas[i]), set()).add((first, last))
    areas = geometry.areas
    return [AreaCells(areas[i].name, areas[i].kind, sorted(cells)) for i, cells in sorted(ranges.items())]


def _groups(geometry: Geometry, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Allocation or block groups of each device, named for the cell under the pointer."""
    return [
        {
            "device": device,
            "name": groups.name,
            "first_byte": groups.first * SECTOR_BYTES,
            "bytes": groups.sectors * SECTOR_BYTES,
            "end_byte": groups.end * SECTOR_BYTES,
        }
        for device, number in enumerate(numbers)
        if number in geometry.devices
        for groups in geometry.devices[number].groups[:MOST_GROUPS]
    ]


def speeds(span_s: float) -> tuple[list[tuple[str, str]], str]:
    """The speeds to choose from, value and label, and the value of the first. Speed 1 is real time."""
    power = math.floor(math.log10(span_s / LENGTH_S))
    nice = [(n, p) for p in (power - 1, power, power + 1) for n in NICE]
    values = [f"{n * 10.0**p:.12g}" for n, p in nice]
    first = min(values, key=lambda v: abs(math.log(float(v) / (span_s / LENGTH_S))))
    return [(v, f"{float(v):,.10g} × real time") for v in values], first


def _data(frames: Frames, packed: bytes, captions: Captions, zero_ns: int) -> dict[str, Any]:
    """The data of the page, as the script of movie_page/ reads it."""
    totals = [[0, 0] for _ in KINDS]
    for k in range(len(KINDS)):
        mine = frames.entries.kind == k
        totals[k] = [int(frames.entries.requests[mine].sum()), int(frames.entries.bytes[mine].sum())]
    fade = max(LEAST_FADE_FRAMES, round(frames.count * FADE_SHARE))
    frame_s = frames.width_ns / 1e9
    return {
        "title": captions.title,
        "subtitle": captions.subtitle,
        "banners": list(captions.banners),
        "devices": list(captions.devices),
        "mark": captions.mark,
        "time_axis": captions.time_axis,
        "start_s": (frames.start_ns - zero_ns) / 1e9,
        "end_s": (frames.end_ns - zero_ns) / 1e9,
        "frames": frames.count,
        "frame_s": frame_s,
        "last_frame_s": float(frames.lengths_s[-1]),
        "frame_length": duration(frames.width_ns),
        "decimals": min(max(math.ceil(-math.log10(frame_s)), 0), 6),
        "fade_frames": fade,
        "fade_length": duration((fade - 1) * frames.width_ns),
        "columns": COLUMNS,
        "cells": frames.grid.cells,
        "cell_bytes": frames.grid.cell_sectors * SECTOR_BYTES,
        "lines": _lines(frames.grid),
        "kinds": [{"op": op, "class": class_, "ramp": style.CLASS_RAMP[class_]} for op, class_ in KINDS],
        "ops": OPS,
        "colors": {"write": style.WRITE, "read": style.READ, "depth": style.DEPTH},
        "totals": totals,
        "rows": frames.rows,
        "seeks": frames.seeks.tolist(),
        "placeless": frames.placeless.tolist(),
        "depth": [round(float(d), 3) for d in frames.depth],
        "phases": [
            {"name": p.name, "label": p.label, "start_s": p.start_s, "end_s": p.end_s, "color": color}
            for p, color in zip(captions.phases, style.PHASE_BANDS * MOST_PHASES, strict=False)
        ],
        "areas": [
            {"name": area.name, "kind": area.kind, "ranges": area.ranges}
            for area in area_cells(frames.grid, captions.geometry, captions.numbers)
        ],
        "groups": _groups(captions.geometry, captions.numbers),
        "outlined": [
            {"kind": kind, "color": style.CLASS[kind], "dash": dash} for kind, dash in OUTLINED.items()
        ],
        "packed": base64.b64encode(packed).decode("ascii"),
    }


def render(frames: Frames, captions: Captions, zero_ns: int) -> str:
    """The page's HTML. zero_ns: the time that is shown as 0 s."""
    frames, packed = fit(frames)
    environment = templates(PARTS)
    script = "".join((PARTS / name).read_text("utf-8") for name in SCRIPTS)
    choices, speed = speeds((frames.end_ns - frames.start_ns) / 1e9)
    grid = frames.grid
    notes = [
        f"A cell is {cell_size(grid.cell_sectors)}, a row {cell_size(grid.cell_sectors * COLUMNS)}:"
        f" {disk_grid.DEFINITION}.",
        f"A frame is {duration(frames.width_ns)}: {movie_frames.DEFINITION}",
        "Space: play or pause; arrow keys: one frame; #t=SECONDS after the address: the frame of that time.",
    ]
    if captions.mark:
        notes.append(f"{captions.mark} requests were lost while recording: see lost events in report.txt.")
    return environment.get_template("page.html.j2").render(
        title=captions.title,
        notes=notes,
        speeds=choices,
        speed=speed,
        data=Markup(in_script(_data(frames, packed, captions, zero_ns))),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
    )
