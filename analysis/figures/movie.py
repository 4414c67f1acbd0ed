# SPDX-License-Identifier: BSD-2-Clause
"""The movie as one HTML page: the disk as a grid, each frame's requests lighting up and fading.

The page holds the frames themselves, packed, and movie_page/, which draws them: nothing is fetched, and what
the run says of itself is text, never markup. The page's size is bounded: frames are joined until they fit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from analysis import units
from analysis.figures import style
from analysis.measures.block import disk_grid, movie_frames
from analysis.measures.block.disk_grid import COLUMNS, Grid, Line
from analysis.measures.block.movie_frames import KINDS, Entries, Frames
from analysis.measures.common.timeline import NICE
from analysis.rundir.layout import Geometry
from analysis.tables.block import SECTOR_BYTES
from analysis.tables.store import I64

MOST_PACKED_BYTES = 3_400_000  # base64 makes 4.5 MB of it
PACK_LEVEL = 4  # 9 takes ten times as long, for a few percent
FADE_SHARE = 0.02  # of the movie; a cell fades over so many frames, but over some at least
LEAST_FADE_FRAMES = 8
LENGTH_S = 30  # of the movie at the speed it begins with
LABEL_EVERY = 4  # rows
MOST_PHASES = 2000
MOST_GROUPS = 100  # lots of equal groups; a device has one
OUTLINED = {"journal": (3, 2), "metadata": (1, 2)}  # kinds of areas, and the dashes of their borders
OPS = ("write", "read", "discard")
PARTS = Path(__file__).parent / "movie_page"
SCRIPTS = ("frames.js", "pen.js", "grid.js", "times.js", "controls.js")


@dataclass(frozen=True)
class Phase:
    """A phase, in seconds of the picture."""

    name: str
    label: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Captions:
    """What stands on the picture beside the frames."""

    title: str
    subtitle: str
    banners: Sequence[str]
    devices: Sequence[str]
    time: str  # of the time axis
    mark: str = ""  # "*": requests were lost
    phases: Sequence[Phase] = field(default_factory=list)
    numbers: Sequence[int] = ()  # of the devices
    geometry: Geometry = field(default_factory=Geometry)


def varints(values: I64) -> bytes:
    """Numbers of 0 and more, 7 bits a byte, lowest first, the top bit set on all but the last of each."""
    v = np.asarray(values, dtype=np.uint64)
    length = np.ones(v.size, dtype=np.int64)
    for k in range(1, 9):
        length += v >= np.uint64(1 << 7 * k)
    begin = np.cumsum(length) - length
    out = np.zeros(int(length.sum()), dtype=np.uint8)
    for k in range(int(length.max()) if v.size else 0):
        some = length > k
        byte = (v[some] >> np.uint64(7 * k)) & np.uint64(127)
        out[begin[some] + k] = byte.astype(np.uint8) | np.where(length[some] > k + 1, 128, 0).astype(np.uint8)
    return out.tobytes()


def pack(entries: Entries, frames: int, cells: int) -> bytes:
    """As frames.js unpacks them: entries a frame, distances of keys, requests, bytes; all deflated."""
    key = entries.kind * cells + entries.cell
    distance = np.diff(key, prepend=0)
    first = np.diff(entries.frame, prepend=-1) > 0
    distance[first] = key[first]
    columns = (np.bincount(entries.frame, minlength=frames), distance, entries.requests, entries.bytes)
    return zlib.compress(b"".join(varints(column) for column in columns), PACK_LEVEL)


def fit(frames: Frames) -> tuple[Frames, bytes]:
    """The frames, joined by twos until they fit, and packed."""
    while True:
        packed = pack(frames.entries, frames.count, frames.grid.cells)
        if len(packed) <= MOST_PACKED_BYTES or frames.count == 1:
            return frames, packed
        frames = frames.joined(2)


def cell_words(cell_sectors: int) -> str:
    """The size of a cell: 2 MiB (a power of two)."""
    size = cell_sectors * SECTOR_BYTES
    power = (size.bit_length() - 1) // 10
    return f"{size >> 10 * power} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"


def duration(ns: int) -> str:
    """5 ms; 0.4 s."""
    unit, factor = next((u for u in (("s", 1e9), ("ms", 1e6)) if ns >= u[1] / 5), ("us", 1e3))
    return f"{ns / factor:,.6g} {unit}"


def _line_words(grid: Grid) -> list[dict[str, Any]]:
    """Each line's label: offsets in one unit a device, with the decimals that tell rows apart."""
    found: list[dict[str, Any]] = []
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
        found.append(entry)
    return found


def _end_bytes(lines: Sequence[Line], device: int) -> int:
    return max((one.first_sector + one.sectors) * SECTOR_BYTES for one in lines if one.device == device)


def _offset(offset: int, end: int, row_bytes: int) -> str:
    unit, factor = next((u for u in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if end >= 2 * u[1]), ("kB", 1e3))
    decimals = min(max(math.ceil(-math.log10(row_bytes / factor)) + 1, 0), 3)
    return f"{offset / factor:,.{decimals}f} {unit}" if offset else "0"


@dataclass(frozen=True)
class AreaCells:
    """The cells, first and last of each row or part of a row, that hold something of an area."""

    name: str
    kind: str
    ranges: list[tuple[int, int]]


def area_cells(grid: Grid, geometry: Geometry, numbers: Sequence[int]) -> list[AreaCells]:
    """Where the file system's areas are among the cells. numbers: of the devices, in the grid's order."""
    found: dict[int, set[tuple[int, int]]] = {}
    rows = [line for line in grid.lines if not line.is_gap]
    for row, line in enumerate(rows):
        of = geometry.devices.get(numbers[line.device])
        if of is None or not of.edges.size:
            continue
        end = line.first_sector + line.sectors
        begin = max(int(np.searchsorted(of.edges, line.first_sector, side="right")) - 1, 0)
        for i in range(begin, int(np.searchsorted(of.edges, end))):
            # the last piece has no end: what lies behind the file system
            until = int(of.edges[i + 1]) if i + 1 < of.edges.size else end
            low, high = max(int(of.edges[i]), line.first_sector), min(until, end)
            if low < high and of.areas[i]:
                first, last = (
                    (sector - line.first_sector) // grid.cell_sectors + row * COLUMNS
                    for sector in (low, high - 1)
                )
                found.setdefault(int(of.areas[i]), set()).add((first, last))
    areas = geometry.areas
    return [AreaCells(areas[i].name, areas[i].kind, sorted(some)) for i, some in sorted(found.items())]


def _groups(geometry: Geometry, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """The groups of each device, for the words on a cell."""
    return [
        {
            "device": device,
            "name": one.name,
            "first_byte": one.first * SECTOR_BYTES,
            "bytes": one.sectors * SECTOR_BYTES,
            "end_byte": one.end * SECTOR_BYTES,
        }
        for device, number in enumerate(numbers)
        if number in geometry.devices
        for one in geometry.devices[number].groups[:MOST_GROUPS]
    ]


def speeds(span_s: float) -> tuple[list[tuple[str, str]], str]:
    """Speeds to choose from, against real time, and the one to begin with."""
    power = math.floor(math.log10(span_s / LENGTH_S))
    nice = [(n, p) for p in (power - 1, power, power + 1) for n in NICE]
    values = [f"{n * 10.0**p:.12g}" for n, p in nice]
    first = min(values, key=lambda v: abs(math.log(float(v) / (span_s / LENGTH_S))))
    return [(v, f"{float(v):,.10g} × real time") for v in values], first


def _data(frames: Frames, packed: bytes, words: Captions, zero_ns: int) -> dict[str, Any]:
    """What movie_page/ reads."""
    totals = [[0, 0] for _ in KINDS]
    for k in range(len(KINDS)):
        mine = frames.entries.kind == k
        totals[k] = [int(frames.entries.requests[mine].sum()), int(frames.entries.bytes[mine].sum())]
    fade = max(LEAST_FADE_FRAMES, round(frames.count * FADE_SHARE))
    frame_s = frames.width_ns / 1e9
    return {
        "title": words.title,
        "subtitle": words.subtitle,
        "banners": list(words.banners),
        "devices": list(words.devices),
        "mark": words.mark,
        "time_words": words.time,
        "start_s": (frames.start_ns - zero_ns) / 1e9,
        "end_s": (frames.end_ns - zero_ns) / 1e9,
        "frames": frames.count,
        "frame_s": frame_s,
        "last_frame_s": float(frames.lengths_s[-1]),
        "frame_words": duration(frames.width_ns),
        "decimals": min(max(math.ceil(-math.log10(frame_s)), 0), 6),
        "fade_frames": fade,
        "fade_words": duration((fade - 1) * frames.width_ns),
        "columns": COLUMNS,
        "cells": frames.grid.cells,
        "cell_bytes": frames.grid.cell_sectors * SECTOR_BYTES,
        "lines": _line_words(frames.grid),
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
            for p, color in zip(words.phases, style.PHASE_BANDS * MOST_PHASES, strict=False)
        ],
        "areas": [
            {"name": one.name, "kind": one.kind, "ranges": one.ranges}
            for one in area_cells(frames.grid, words.geometry, words.numbers)
        ],
        "groups": _groups(words.geometry, words.numbers),
        "outlined": [
            {"kind": kind, "color": style.CLASS[kind], "dash": dash} for kind, dash in OUTLINED.items()
        ],
        "packed": base64.b64encode(packed).decode("ascii"),
    }


def in_script(data: Any) -> str:
    """JSON that can't end the script element it stands in, whatever words it holds."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def render(frames: Frames, words: Captions, zero_ns: int) -> str:
    """The page. zero_ns: the moment shown as 0 s."""
    frames, packed = fit(frames)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PARTS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    script = "".join((PARTS / name).read_text("utf-8") for name in SCRIPTS)
    choices, speed = speeds((frames.end_ns - frames.start_ns) / 1e9)
    grid = frames.grid
    notes = [
        f"A cell is {cell_words(grid.cell_sectors)}, a row {cell_words(grid.cell_sectors * COLUMNS)}:"
        f" {disk_grid.DEFINITION}.",
        f"A frame is {duration(frames.width_ns)}: {movie_frames.DEFINITION}",
        "Space: play or pause; arrow keys: one frame; #t=SECONDS behind the address opens that moment.",
    ]
    if words.mark:
        notes.append(f"{words.mark} requests were lost when recording: see the losses section of report.txt.")
    return environment.get_template("page.html.j2").render(
        title=words.title,
        notes=notes,
        speeds=choices,
        speed=speed,
        data=Markup(in_script(_data(frames, packed, words, zero_ns))),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
    )
