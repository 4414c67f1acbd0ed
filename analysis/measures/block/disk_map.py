# SPDX-License-Identifier: BSD-2-Clause
"""Map of bytes per cell of issue time and disk offset, for the IO graph.

Every byte of every request counts in exactly one cell: a request that spans cells is divided by the bytes it
has in each. Offsets are int64 sectors, so nothing above 8 GiB is rounded. The map covers all I/O. Long
stretches of the disk without I/O are cut out of the axis, with a mark. Several devices are separate bands of
one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.common.timeline import F64
from analysis.tables.block import SECTOR_BYTES, Block, parts
from analysis.tables.store import I64, Ints

SCAN_CELLS = 1000
TABLE_BITS = 14
GAP_CELLS = 120  # an empty stretch longer than this of the scanned cells is cut out
LEAST_HEIGHT = 0.08  # of its device's band, for each used stretch
LEAST_BAND = 0.2  # of the axis, for each device with I/O
DEFINITION = "bytes per cell, at the time of issue; a request that spans cells is divided among them."
DISCARDS = ("discard", "write_zeroes", "secure_erase")


Stretches = list[tuple[int, int]]


@dataclass(frozen=True)
class Axis:
    """The disk axis: rows of equal height within each used stretch [begin, end), gaps cut out.

    With several devices, each lies above the previous one: a position on the axis is the device's base plus
    the sector. All stretches and edges are positions. A single device has base 0: positions are sectors.
    """

    stretches: Stretches
    device: list[int]  # by stretch: index of its device (0, 1, ...)
    bases: list[int]  # by device: position of its sector 0
    end: int  # position behind the last device
    edges: I64  # rows + 1 row edges, first row at the lowest offset; gaps belong to no row
    starts: I64  # first row of each stretch, then the number of rows

    @property
    def rows(self) -> int:
        """Rows in all stretches together."""
        return int(self.starts[-1])


ALL = slice(None)


def _moving(block: Block, at: slice = ALL) -> npt.NDArray[np.bool_]:
    """Mask of the rows that move or discard bytes at a possible sector."""
    return np.asarray((block.bytes[at] > 0) & (block.sector[at] >= 0) & (block.sector[at] < 1 << 53))


def used(block: Block, numbers: Sequence[int]) -> list[Stretches]:
    """The used stretches of each device, by its number: sectors whose bytes rows move or discard."""

    def extents(number: int) -> Iterator[tuple[I64, I64]]:
        for at in parts(block.rows):
            rows = _moving(block, at)
            if len(numbers) > 1:
                rows &= block.dev[at] == number
            begin = block.sector[at][rows]
            if begin.size:
                yield begin, begin + -(-block.bytes[at][rows] // SECTOR_BYTES)

    return [_stretches(lambda number=number: extents(number)) for number in numbers]  # type: ignore[misc]


def stretches(begin: I64, end: I64) -> Stretches:
    """The used stretches of one device, [begin, end) in sectors, in order; empty without I/O."""
    return _stretches(lambda: iter([(begin, end)] if begin.size else []))


def _stretches(extents: Callable[[], Iterator[tuple[I64, I64]]]) -> Stretches:
    """The used stretches of one device. extents: called twice, yields begins and ends in parts."""
    bounds = [(int(begin.min()), int(end.max())) for begin, end in extents()]
    if not bounds:
        return []
    low, high = min(first for first, _ in bounds), max(last for _, last in bounds)
    cell = max(-(-(high - low) // SCAN_CELLS), 1)
    cells = -(-(high - low) // cell)
    change = np.zeros(cells + 1, dtype=np.int64)
    for begin, end in extents():
        change += np.bincount((begin - low) // cell, minlength=cells + 1)
        change -= np.bincount((end - 1 - low) // cell + 1, minlength=cells + 1)
    filled = np.flatnonzero(np.cumsum(change)[:cells] > 0)
    breaks = np.flatnonzero(np.diff(filled) > GAP_CELLS)
    first = filled[np.concatenate(([0], breaks + 1))]
    last = filled[np.concatenate((breaks, [filled.size - 1]))]
    return [
        (low + int(a) * cell, min(low + (int(b) + 1) * cell, high)) for a, b in zip(first, last, strict=True)
    ]


def make_axis(used: Sequence[Stretches], sizes: Sequence[int], rows: int) -> Axis | None:
    """Divide `rows` among the used stretches of each device; None without I/O. sizes: devices, in sectors."""
    length = [float(sum(b - a for a, b in device_stretches)) for device_stretches in used]
    if not any(length):
        return None
    band = [max(sectors / sum(length), LEAST_BAND) if sectors else 0.0 for sectors in length]
    bases, base = [], 0
    places: Stretches = []
    device: list[int] = []
    counts: list[int] = []
    for i, (device_stretches, size) in enumerate(zip(used, sizes, strict=True)):
        bases.append(base)
        share = np.array([max((b - a) / length[i], LEAST_HEIGHT) for a, b in device_stretches])
        for (a, b), height in zip(device_stretches, share / share.sum() * band[i] / sum(band), strict=True):
            places.append((base + a, base + b))
            device.append(i)
            counts.append(int(min(max(round(float(height) * rows), 1), b - a)))
        base += max(size, device_stretches[-1][1] if device_stretches else 0)
    edges = [
        a + np.arange(n, dtype=np.int64) * (b - a) // n for (a, b), n in zip(places, counts, strict=True)
    ]
    edges.append(np.array([places[-1][1]], dtype=np.int64))
    return Axis(places, device, bases, base, np.concatenate(edges), np.concatenate(([0], np.cumsum(counts))))


@dataclass(frozen=True)
class RequestCells:
    """Column and first and last row of each request that moves bytes. usable: mask of these requests."""

    usable: npt.NDArray[np.bool_]
    begin: I64
    size: Ints
    first: I64
    last: I64
    column: I64
    columns: int


def rows_of(axis: Axis, begin: I64) -> I64:
    """The row of each position, by a table of equal steps: six times as fast as np.searchsorted."""
    low = int(axis.edges[0])
    shift = max(int(axis.edges[-1] - low).bit_length() - TABLE_BITS, 0)
    steps = low + (np.arange((int(axis.edges[-1] - low) >> shift) + 2) << shift)
    row_of_step = np.searchsorted(axis.edges, steps, side="right") - 1  # row of each step's first position
    rows: I64 = row_of_step[(begin - low) >> shift]
    ends = np.append(axis.edges[1:], np.iinfo(np.int64).max)
    while (too_low := np.flatnonzero(begin >= ends[rows])).size:
        rows[too_low] += 1
    return rows


def request_cells(
    block: Block,
    numbers: Sequence[int],
    axis: Axis,
    start_ns: int,
    end_ns: int,
    columns: int,
    at: slice = ALL,
) -> RequestCells:
    """Find the cells of the requests in rows `at`, for all classes. numbers: of devices, in axis order."""
    usable = _moving(block, at)
    begin = block.sector[at][usable]
    for number, base in zip(numbers, axis.bases, strict=True):
        if base:
            begin = np.where(block.dev[at][usable] == number, begin + base, begin)
    size = block.bytes[at][usable]
    end = begin + -(-size // SECTOR_BYTES)
    t = block.issue_ns[at][usable] - start_ns
    # a division of floats is exact enough for a column, and ten times as fast as one of int64
    column = np.clip(t * (columns / max(end_ns - start_ns, 1)), 0, columns - 1).astype(np.int64)
    first = rows_of(axis, begin)
    last = first.copy()
    longer = np.flatnonzero(end > axis.edges[np.minimum(first + 1, axis.rows)])
    last[longer] = np.searchsorted(axis.edges, end[longer] - 1, side="right") - 1
    return RequestCells(usable, begin, size, first, last, column, columns)


def layered_maps(placed: RequestCells, layers: Ints, layer_count: int, axis: Axis) -> F64:
    """Bytes per cell of each layer 0..many-1: layers x rows x columns. layers: of each request."""
    layer = layers[placed.usable]
    rows, columns = axis.rows, placed.columns
    flat = layer_count * rows * columns
    cell = (layer * np.int64(rows) + placed.first) * columns + placed.column
    longer = np.flatnonzero(placed.first != placed.last)
    if not longer.size:
        sums: F64 = np.bincount(cell, placed.size, flat).astype(np.float64)
        return sums.reshape(layer_count, rows, columns)
    within = placed.size.copy()
    within[longer] = 0
    total = np.bincount(cell, within, flat)
    # the end of each row: the next edge; before a gap, the stretch's end
    edges, row_end = axis.edges, axis.edges[1:].copy()
    for stretch, (_, stop) in enumerate(axis.stretches):
        row_end[axis.starts[stretch + 1] - 1] = stop
    f, la, begin = placed.first[longer], placed.last[longer], placed.begin[longer]
    head = (row_end[f] - begin) * SECTOR_BYTES
    between = np.where(la > f + 1, edges[la] - edges[np.minimum(f + 1, rows - 1)], 0) * SECTOR_BYTES
    tail = placed.size[longer] - head - between
    last_cell = cell[longer] + (la - f) * columns
    total += np.bincount(cell[longer], head, flat)
    total += np.bincount(last_cell, tail, flat)
    # whole rows between: count how many requests cover each, by differences along the rows
    spanning = np.flatnonzero(la > f + 1)
    if spanning.size:
        cover = np.bincount(cell[longer][spanning] + columns, minlength=flat).astype(np.int64)
        cover -= np.bincount(last_cell[spanning], minlength=flat)
        covers = np.cumsum(cover.reshape(layer_count, rows, columns), axis=1)
        height = (row_end - edges[:-1]) * SECTOR_BYTES
        total += (covers * height[None, :, None]).reshape(-1)
    return np.asarray(total, dtype=np.float64).reshape(layer_count, rows, columns)


def whole_disk(placed: RequestCells, layers: Ints, layer_count: int, size_sectors: int, cells: int) -> F64:
    """Bytes per layer and cell of the axis's positions [0, size), by the start of requests, over all time."""
    at = np.clip(placed.begin * (cells / max(size_sectors, 1)), 0, cells - 1).astype(np.int64)
    at += layers[placed.usable] * np.int64(cells)
    sums: F64 = np.bincount(at, placed.size, layer_count * cells).astype(np.float64)
    return sums.reshape(layer_count, cells)
