# SPDX-License-Identifier: BSD-2-Clause
"""Movie of the disk: requests and bytes by frame, kind and cell of the grid (disk_grid.py).

A request belongs to the frame of its issue. Its bytes are divided among the cells it spans; the request
counts in its first cell. Requests without an offset (flushes, and others that move no bytes) count per frame.
All frames together hold each request once and each byte once.

Two passes read the block table in parts. Memory grows with the table only by 21 bytes a read or write, which
the seeks need: seeks are defined in issue order, the table is in completion order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.measures.block.disk_grid import Grid, UsedRows, make_grid
from analysis.measures.block.disk_map import DISCARDS
from analysis.measures.block.seeks import NEAR_SECTORS
from analysis.measures.common.timeline import F64, nice_width_ns
from analysis.tables.block import CLASSES, SECTOR_BYTES
from analysis.tables.block_parts import Part
from analysis.tables.store import I64

MOST_FRAMES = 600
MOST_ENTRIES = 3_000_000  # with more entries, frames are joined
QUANTUM_NS = 10_000
FARTHEST_SECTOR = 1 << 53  # a request at a larger sector counts as one without an offset
LONGEST_BYTES = 1 << 40  # a longer request counts as one without an offset
# the kinds of a cell: op and class. A rare op that moves bytes (driver, zone) is a write of unknown class; a
# class this program does not know is unknown.
KINDS = (
    *(("write", class_) for class_ in CLASSES),
    *(("read", class_) for class_ in CLASSES),
    ("discard", "discard"),
)
DEFINITION = (
    "by time of issue; the bytes of a request are divided among the cells it spans, it is counted in the cell"
    " it begins in. Seek: starts more than 128 sectors from the end of the read or write before it on its"
    " device, in issue order. Queue depth: requests issued and not completed, mean over the frame."
)


@dataclass(frozen=True)
class Entries:
    """Requests and bytes by frame, kind and cell, in that order; only combinations that occur."""

    frame: I64
    kind: I64  # index into KINDS
    cell: I64
    requests: I64
    bytes: I64

    def joined(self, frames: int, cells: int) -> Entries:
        """The entries with each `frames` consecutive frames summed to one."""
        key = ((self.frame // frames) * len(KINDS) + self.kind) * cells + self.cell
        keys, at = np.unique(key, return_inverse=True)
        sums = [np.zeros(keys.size, dtype=np.int64) for _ in range(2)]
        np.add.at(sums[0], at, self.requests)
        np.add.at(sums[1], at, self.bytes)
        return _entries(keys, cells, *sums)


def _entries(key: I64, cells: int, requests: I64, size: I64) -> Entries:
    return Entries(key // cells // len(KINDS), key // cells % len(KINDS), key % cells, requests, size)


@dataclass(frozen=True)
class Frames:
    """The movie: entries of all frames, and per frame seeks, queue depth and requests without an offset."""

    start_ns: int
    end_ns: int
    width_ns: int  # of a frame; the last one may be shorter
    grid: Grid
    entries: Entries
    seeks: I64
    placeless: I64  # requests without an offset: flushes, and others that move no bytes
    depth: F64  # mean queue depth at the device
    rows: int  # requests in all frames

    @property
    def count(self) -> int:
        """Number of frames."""
        return int(self.seeks.size)

    @property
    def lengths_s(self) -> F64:
        """Length of each frame; the last frame may be shorter."""
        edges = np.minimum(self.start_ns + np.arange(self.count + 1) * self.width_ns, self.end_ns)
        return np.diff(edges) / 1e9

    def joined(self, frames: int) -> Frames:
        """A movie whose frames are each `frames` consecutive frames of this one."""
        starts = np.arange(0, self.count, frames)
        weighted = np.add.reduceat(self.depth * self.lengths_s, starts)
        return Frames(
            self.start_ns,
            self.end_ns,
            self.width_ns * frames,
            self.grid,
            self.entries.joined(frames, self.grid.cells),
            np.add.reduceat(self.seeks, starts),
            np.add.reduceat(self.placeless, starts),
            weighted / np.add.reduceat(self.lengths_s, starts),
            self.rows,
        )


def _kinds(part: Part) -> I64:
    """Index in KINDS by op and class, for every request, with or without bytes."""
    table = np.zeros((len(part.op.labels), len(part.class_.labels)), dtype=np.int64)
    for i, op in enumerate(part.op.labels):
        for j, class_ in enumerate(part.class_.labels):
            known_class = class_ if op in ("read", "write") and class_ in CLASSES else "unknown"
            kind = (
                ("discard", "discard")
                if op in DISCARDS
                else ("read" if op == "read" else "write", known_class)
            )
            table[i, j] = KINDS.index(kind)
    return np.asarray(table[part.op.codes, part.class_.codes])


def _placed(part: Part) -> npt.NDArray[np.bool_]:
    """Mask of the requests with bytes at a valid disk offset."""
    has_bytes = (part.bytes > 0) & (part.bytes < LONGEST_BYTES)
    return np.asarray(has_bytes & (part.sector >= 0) & (part.sector < FARTHEST_SECTOR))


def _end(sector: I64, size: I64) -> I64:
    return np.asarray(sector + -(-size // SECTOR_BYTES), dtype=np.int64)


def _device_index(numbers: Sequence[int], dev: I64) -> npt.NDArray[np.int64]:
    index = np.zeros(dev.size, dtype=np.int64)
    for i, number in enumerate(numbers[1:], 1):
        index[dev == number] = i
    return index


@dataclass(frozen=True)
class Overview:
    """Results of the first pass: devices, rows with I/O, time span, seeks."""

    numbers: list[int]  # of the devices with I/O
    touched: list[UsedRows]
    first_ns: int  # earliest issue
    last_ns: int  # latest completion
    rows: int
    seek_ns: I64  # issue times of the seeks

    def in_order(self, numbers: list[int]) -> Overview:
        """A copy with the devices in the order of `numbers`."""
        by_number = dict(zip(self.numbers, self.touched, strict=True))
        return replace(self, numbers=numbers, touched=[by_number[n] for n in numbers])


def scan_requests(parts: Iterable[Part]) -> Overview:
    """The first pass: rows with I/O per device, the time span, and issue times of the seeks."""
    devices: dict[int, UsedRows] = {}
    moves: list[list[npt.NDArray[Any]]] = []  # of each part: issue, sector, length, device
    first, last, rows = 1 << 62, 0, 0
    for part in parts:
        if not part.issue_ns.size:
            continue
        rows += part.issue_ns.size
        has_time = part.issue_ns > 0
        if has_time.any():
            first = min(first, int(part.issue_ns[has_time].min()))
            last = max(last, int(part.complete_ns.max()))
        placed = _placed(part)
        is_one_device = bool((part.dev == part.dev[0]).all())
        for number in [int(part.dev[0])] if is_one_device else [int(n) for n in np.unique(part.dev)]:
            on_device = placed if is_one_device else placed & (part.dev == number)
            if on_device.any():
                begin = part.sector[on_device]
                devices.setdefault(number, UsedRows()).add(begin, _end(begin, part.bytes[on_device]))
        # an index is 8 bits: seeks of the first 255 devices, far more than runs have
        device_indices = {number: i for i, number in enumerate(list(devices)[:255])}
        moving = part.op.is_in(("read", "write")) & (part.bytes > 0)
        index = np.full(part.dev.size, 255, dtype=np.uint8)
        for number, i in device_indices.items():
            index[part.dev == number] = i
        length = np.minimum(-(-part.bytes[moving] // SECTOR_BYTES), (1 << 31) - 1).astype(np.int32)
        moves.append([part.issue_ns[moving], part.sector[moving], length, index[moving]])
    return Overview(list(devices), list(devices.values()), first, last, rows, _seek_times(moves))


def _seek_times(moves: list[list[npt.NDArray[Any]]]) -> I64:
    """Issue times of the seeks by the rule of seeks.py. Empties `moves` to save memory."""
    columns = []
    for _ in range(4):  # one column at a time, so that only one is in memory twice
        columns.append(np.concatenate([part.pop(0) for part in moves] or [np.zeros(0, dtype=np.int64)]))
    device = columns.pop()
    numbers = np.unique(device)
    if numbers.size <= 1:
        return _seeks_of(columns)
    device_masks = (device == number for number in numbers)
    return np.concatenate(
        [_seeks_of([column[on_device] for column in columns]) for on_device in device_masks]
    )


def _seeks_of(columns: list[npt.NDArray[Any]]) -> I64:
    """Issue times of one device's seeks. columns: issue, sector, length; emptied to save memory."""
    length, sector, issue = columns.pop(), columns.pop(), columns.pop()
    order = np.argsort(issue, kind="stable")
    sector = sector[order]
    distance = np.diff(sector)
    del sector
    distance -= length[order[:-1]]
    del length
    np.abs(distance, out=distance)
    return np.asarray(issue[order[1:][distance > NEAR_SECTORS]], dtype=np.int64)


def make_frames(
    overview: Overview, parts: Iterable[Part], start_ns: int, end_ns: int, sizes: Sequence[int]
) -> Frames | None:
    """The second pass; None: no request has an offset. sizes: of the devices in sectors, 0: not known."""
    grid = make_grid(overview.touched, sizes)
    if grid is None:
        return None
    width = nice_width_ns(end_ns - start_ns, MOST_FRAMES, QUANTUM_NS)
    frames = -(-(end_ns - start_ns) // width)
    cells, kinds = grid.cells, len(KINDS)
    requests = np.zeros(frames * kinds * cells, dtype=np.int32)
    size = np.zeros(frames * kinds * cells, dtype=np.int64)
    # requests that cover a cell wholly, as differences along the cells, with one more behind the last cell
    cover = np.zeros(frames * kinds * (cells + 1), dtype=np.int32)
    placeless = np.zeros(frames, dtype=np.int64)
    begun, ended = _Depth(start_ns, width, frames), _Depth(start_ns, width, frames)
    cell_bytes = grid.cell_sectors * SECTOR_BYTES

    def frame_of(t: I64) -> I64:
        # a moment outside the movie counts in the nearest frame, so that no request is dropped
        return np.clip((t - start_ns) // width, 0, frames - 1)

    for part in parts:
        placed = _placed(part)
        frame = frame_of(part.issue_ns)
        placeless += np.bincount(frame[~placed], minlength=frames)
        begun.add(part.issue_ns[part.lasting])
        ended.add(part.complete_ns[part.lasting])
        device = _device_index(overview.numbers, part.dev[placed])
        sector, length = part.sector[placed], part.bytes[placed]
        row = frame[placed] * kinds + _kinds(part)[placed]
        first = grid.cell(device, sector)
        spans = (_end(sector, length) - 1) // grid.cell_sectors - sector // grid.cell_sectors
        np.add.at(requests, row * cells + first, 1)
        head = np.minimum(length, cell_bytes - sector % grid.cell_sectors * SECTOR_BYTES)
        np.add.at(size, row * cells + first, np.where(spans > 0, head, length))
        spanning = np.flatnonzero(spans > 0)
        if spanning.size:
            row, last, between = row[spanning], (first + spans)[spanning], spans[spanning] - 1
            tail = (length - head)[spanning] - between * cell_bytes
            np.add.at(size, row * cells + last, tail)
            np.add.at(cover, row * (cells + 1) + first[spanning] + 1, 1)
            np.add.at(cover, row * (cells + 1) + last, -1)
    step = _step(requests.reshape(frames, kinds * cells))
    sums = []
    for i in range(0, frames, step):
        n = min(step, frames - i)
        change = cover[i * kinds * (cells + 1) : (i + n) * kinds * (cells + 1)].reshape(n, -1).sum(0)
        full_bytes = np.cumsum(change).reshape(kinds, cells + 1)[:, :cells].reshape(-1) * cell_bytes
        cells_of_frames = slice(i * kinds * cells, (i + n) * kinds * cells)
        counts, total = (
            requests[cells_of_frames].reshape(n, -1).sum(0),
            size[cells_of_frames].reshape(n, -1).sum(0) + full_bytes,
        )
        keys = np.flatnonzero((counts > 0) | (total > 0))
        sums.append((keys + i // step * kinds * cells, counts[keys], total[keys]))
    key, count, total = (np.concatenate(column) for column in zip(*sums, strict=True))
    edges = np.minimum(start_ns + np.arange(frames + 1) * width, end_ns)
    area = begun.before(edges) - ended.before(edges)
    short = Frames(
        start_ns=start_ns,
        end_ns=end_ns,
        width_ns=width,
        grid=grid,
        entries=_entries(key, cells, count, total),  # by the joined frames already
        seeks=np.bincount(frame_of(overview.seek_ns), minlength=frames),
        placeless=placeless,
        depth=np.maximum(np.diff(area), 0.0) / np.diff(edges),
        rows=overview.rows,
    )
    return replace(short.joined(step), entries=short.entries) if step > 1 else short


def _step(requests: npt.NDArray[np.int32]) -> int:
    """Number of frames (rows) to join so that at most MOST_ENTRIES entries of the result are not 0."""
    step = 1
    while step < requests.shape[0]:
        groups = (requests[i : i + step] for i in range(0, requests.shape[0], step))
        if sum(int(np.count_nonzero(group.any(axis=0))) for group in groups) <= MOST_ENTRIES:
            break
        step *= 2
    return step


class _Depth:
    """Integral over time of the number of passed moments, exact at the frames' edges, without a sort."""

    def __init__(self, start_ns: int, width_ns: int, frames: int) -> None:
        self.start_ns, self.width_ns = start_ns, width_ns
        self.count = np.zeros(frames + 1, dtype=np.int64)  # moments by frame; the last: after the end
        self.sums = np.zeros(frames + 1)  # by frame: sum of (moment - begin of the frame)

    def add(self, t: I64) -> None:
        t = np.maximum(t - self.start_ns, 0)
        frame = np.minimum(t // self.width_ns, self.count.size - 1)
        self.count += np.bincount(frame, minlength=self.count.size)
        self.sums += np.bincount(frame, t - frame * self.width_ns, self.count.size)

    def before(self, edges: I64) -> F64:
        """For each edge e, the sum over moments t before it of (e - t), in ns."""
        passed = np.concatenate(([0], np.cumsum(self.count[:-1])))
        # moments of frame j, at an edge e: e - (begin of j) - (t - begin of j)
        begins = np.arange(self.count.size - 1) * self.width_ns
        ahead = np.concatenate(
            ([0.0], np.cumsum(self.count[:-1] * begins.astype(np.float64) + self.sums[:-1]))
        )
        return np.asarray(passed * (edges - self.start_ns).astype(np.float64) - ahead)
