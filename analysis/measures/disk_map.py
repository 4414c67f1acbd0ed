# SPDX-License-Identifier: BSD-2-Clause
"""Where on the disk was how much moved, when? A map of bytes per cell of time (of issue) and disk offset.

Every byte of every request lands in exactly one cell: a request that spans cells is divided among them by
the bytes it has in each. Offsets are int64 sectors throughout, so nothing above 8 GiB is rounded. The map
covers all I/O; long stretches of the disk without any are cut out of the axis, and the axis says so. Several
devices are bands of one axis, never laid over each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.timeline import F64
from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.store import I64, Ints

SCAN_CELLS = 1000
GAP_CELLS = 120  # an empty stretch longer than this of the scanned cells is cut out
LEAST_HEIGHT = 0.08  # of its device's band, for each used stretch
LEAST_BAND = 0.2  # of the axis, for each device with I/O
DEFINITION = "bytes per cell, at the time of issue; a request that spans cells is divided among them."
DISCARDS = ("discard", "write_zeroes", "secure_erase")


Stretches = list[tuple[int, int]]


@dataclass(frozen=True)
class Axis:
    """The disk axis: rows of equal height within each used stretch [begin, end), gaps cut out.

    With several devices, each lies above the one before: a place on the axis is the device's base plus the
    sector. All stretches and edges are places; with one device its base is 0, and places are sectors.
    """

    stretches: Stretches
    device: list[int]  # of each stretch, which device (0, 1, ...)
    bases: list[int]  # of each device, the place of its sector 0
    end: int  # place behind the last device
    edges: I64  # row edges, first row at the lowest offset; rows + 1, gaps belong to no row
    starts: I64  # first row of each stretch, and the number of rows

    @property
    def rows(self) -> int:
        """Rows in all stretches together."""
        return int(self.starts[-1])


def _moving(block: Block) -> npt.NDArray[np.bool_]:
    """Which rows move or discard bytes at a sector that can be."""
    return np.asarray((block.bytes > 0) & (block.sector >= 0) & (block.sector < 1 << 53))


def extents(block: Block, numbers: Sequence[int]) -> list[tuple[I64, I64]]:
    """Per device (by its number): the first sector and the end of every row that moves or discards bytes."""
    usable = _moving(block)
    found = []
    for number in numbers:
        rows = usable & (block.dev == number) if len(numbers) > 1 else usable
        begin = block.sector[rows]
        found.append((begin, begin + -(-block.bytes[rows] // SECTOR_BYTES)))
    return found


def stretches(begin: I64, end: I64) -> Stretches:
    """The used stretches of one device, [begin, end) in sectors, in order; none without any I/O."""
    if not begin.size:
        return []
    low, high = int(begin.min()), int(end.max())
    cell = max(-(-(high - low) // SCAN_CELLS), 1)
    cells = -(-(high - low) // cell)
    change = np.bincount((begin - low) // cell, minlength=cells + 1) - np.bincount(
        (end - 1 - low) // cell + 1, minlength=cells + 1
    )
    used = np.flatnonzero(np.cumsum(change)[:cells] > 0)
    breaks = np.flatnonzero(np.diff(used) > GAP_CELLS)
    first = used[np.concatenate(([0], breaks + 1))]
    last = used[np.concatenate((breaks, [used.size - 1]))]
    return [
        (low + int(a) * cell, min(low + (int(b) + 1) * cell, high)) for a, b in zip(first, last, strict=True)
    ]


def make_axis(used: Sequence[Stretches], sizes: Sequence[int], rows: int) -> Axis | None:
    """Divide `rows` among the used stretches of each device; None without any I/O. sizes: in sectors."""
    length = [float(sum(b - a for a, b in one)) for one in used]
    if not any(length):
        return None
    part = [max(one / sum(length), LEAST_BAND) if one else 0.0 for one in length]
    bases, base = [], 0
    where: Stretches = []
    device: list[int] = []
    counts: list[int] = []
    for i, (one, size) in enumerate(zip(used, sizes, strict=True)):
        bases.append(base)
        share = np.array([max((b - a) / length[i], LEAST_HEIGHT) for a, b in one])
        for (a, b), of in zip(one, share / share.sum() * part[i] / sum(part), strict=True):
            where.append((base + a, base + b))
            device.append(i)
            counts.append(int(min(max(round(float(of) * rows), 1), b - a)))
        base += max(size, one[-1][1] if one else 0)
    edges = [a + np.arange(n, dtype=np.int64) * (b - a) // n for (a, b), n in zip(where, counts, strict=True)]
    edges.append(np.array([where[-1][1]], dtype=np.int64))
    return Axis(where, device, bases, base, np.concatenate(edges), np.concatenate(([0], np.cumsum(counts))))


@dataclass(frozen=True)
class Placed:
    """Every request that moves bytes, with the column and the first and last row of its cells."""

    usable: npt.NDArray[np.bool_]
    begin: I64
    size: Ints
    first: I64
    last: I64
    column: I64
    columns: int


def place(
    block: Block, numbers: Sequence[int], axis: Axis, start_ns: int, end_ns: int, columns: int
) -> Placed:
    """Find the cells of all requests, once for all classes. numbers: of the devices, in the axis's order."""
    usable = _moving(block)
    begin = block.sector[usable]
    for number, base in zip(numbers, axis.bases, strict=True):
        if base:
            begin = np.where(block.dev[usable] == number, begin + base, begin)
    size = block.bytes[usable]
    end = begin + -(-size // SECTOR_BYTES)
    t = block.issue_ns[usable] - start_ns
    # a division of floats is exact enough for a column, and ten times as fast as one of int64
    column = np.clip(t * (columns / max(end_ns - start_ns, 1)), 0, columns - 1).astype(np.int64)
    first = np.searchsorted(axis.edges, begin, side="right") - 1
    last = np.searchsorted(axis.edges, end - 1, side="right") - 1
    return Placed(usable, begin, size, first, last, column, columns)


def bytes_map(placed: Placed, among: npt.NDArray[np.bool_], axis: Axis) -> F64:
    """Bytes per cell, rows x columns; its sum is the sum of the bytes of the rows `among`."""
    chosen = among[placed.usable]
    rows, columns = axis.rows, placed.columns
    flat = rows * columns
    one = chosen & (placed.first == placed.last)
    total = np.zeros(flat)
    total += np.bincount(placed.first[one] * columns + placed.column[one], placed.size[one], flat)
    many = chosen & (placed.first != placed.last)
    if many.any():
        # the end of each row: the next edge, but the stretch's own end at a gap
        edges, row_end = axis.edges, axis.edges[1:].copy()
        for stretch, (_, stop) in enumerate(axis.stretches):
            row_end[axis.starts[stretch + 1] - 1] = stop
        f, la, c = placed.first[many], placed.last[many], placed.column[many]
        head = (row_end[f] - placed.begin[many]) * SECTOR_BYTES
        between = np.where(la > f + 1, edges[la] - edges[np.minimum(f + 1, rows - 1)], 0) * SECTOR_BYTES
        tail = placed.size[many] - head - between
        total += np.bincount(f * columns + c, head, flat)
        total += np.bincount(la * columns + c, tail, flat)
        # whole rows between: count how many requests cover each, by differences along the rows
        cover = np.zeros((rows + 1) * columns)
        cover += np.bincount((f + 1) * columns + c, minlength=cover.size)
        cover -= np.bincount(la * columns + c, minlength=cover.size)
        covers = np.cumsum(cover.reshape(rows + 1, columns), axis=0)[:rows]
        height = (row_end - edges[:-1]) * SECTOR_BYTES
        total += (covers * height[:, None]).reshape(-1)
    return np.asarray(total, dtype=np.float64).reshape(rows, columns)


def whole_disk(placed: Placed, among: npt.NDArray[np.bool_], size_sectors: int, cells: int) -> F64:
    """Bytes per cell of all of the axis's places [0, size), by where requests start, all times together."""
    chosen = among[placed.usable]
    at = np.clip(placed.begin[chosen] * (cells / max(size_sectors, 1)), 0, cells - 1).astype(np.int64)
    return np.bincount(at, placed.size[chosen], cells).astype(np.float64)
