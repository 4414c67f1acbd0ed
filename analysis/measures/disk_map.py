# SPDX-License-Identifier: BSD-2-Clause
"""Where on the disk was how much moved, when? A map of bytes per cell of time (of issue) and disk offset.

Every byte of every request lands in exactly one cell: a request that spans cells is divided among them by
the bytes it has in each. Offsets are int64 sectors throughout, so nothing above 8 GiB is rounded. The map
covers all I/O; long stretches of the disk without any are cut out of the axis, and the axis says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.timeline import F64
from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.store import I64

SCAN_CELLS = 1000
GAP_CELLS = 120  # an empty stretch longer than this of the scanned cells is cut out
LEAST_HEIGHT = 0.08  # of the axis, for each used stretch
DEFINITION = "bytes per cell, at the time of issue; a request that spans cells is divided among them."
DISCARDS = ("discard", "write_zeroes", "secure_erase")


@dataclass(frozen=True)
class Axis:
    """The disk axis: rows of equal height within each used stretch [begin, end) of sectors, gaps cut out."""

    stretches: list[tuple[int, int]]
    edges: I64  # row edges in sectors, first row at the lowest offset; rows + 1, gaps belong to no row
    starts: I64  # first row of each stretch, and the number of rows

    @property
    def rows(self) -> int:
        """Rows in all stretches together."""
        return int(self.starts[-1])


def _extent(block: Block) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """Which rows move or discard bytes, and their first sector and end."""
    rows = (block.bytes > 0) & (block.sector >= 0) & (block.sector < 1 << 53)
    begin = block.sector[rows]
    return np.asarray(rows), begin, begin + -(-block.bytes[rows] // SECTOR_BYTES)


def make_axis(block: Block, rows: int) -> Axis | None:
    """Find the used stretches and divide `rows` among them; None without any I/O."""
    _, begin, end = _extent(block)
    if not begin.size:
        return None
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
    stretches = [
        (low + int(a) * cell, min(low + (int(b) + 1) * cell, high)) for a, b in zip(first, last, strict=True)
    ]
    length = np.array([b - a for a, b in stretches], dtype=np.float64)
    share = np.maximum(length / length.sum(), LEAST_HEIGHT)
    count = np.maximum(np.round(share / share.sum() * rows).astype(np.int64), 1)
    count = np.minimum(count, length.astype(np.int64))
    edges = []
    for (a, b), n in zip(stretches, count, strict=True):
        edges.append(a + np.arange(n, dtype=np.int64) * (b - a) // n)
    edges.append(np.array([stretches[-1][1]], dtype=np.int64))
    return Axis(stretches, np.concatenate(edges), np.concatenate(([0], np.cumsum(count))))


@dataclass(frozen=True)
class Placed:
    """Every request that moves bytes, with the column and the first and last row of its cells."""

    usable: npt.NDArray[np.bool_]
    begin: I64
    size: I64
    first: I64
    last: I64
    column: I64
    columns: int


def place(block: Block, axis: Axis, start_ns: int, end_ns: int, columns: int) -> Placed:
    """Find the cells of all requests, once for all classes."""
    usable, begin, end = _extent(block)
    t = block.issue_ns[usable] - start_ns
    # a division of floats is exact enough for a column, and ten times as fast as one of int64
    column = np.clip(t * (columns / max(end_ns - start_ns, 1)), 0, columns - 1).astype(np.int64)
    first = np.searchsorted(axis.edges, begin, side="right") - 1
    last = np.searchsorted(axis.edges, end - 1, side="right") - 1
    return Placed(usable, begin, block.bytes[usable], first, last, column, columns)


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
    """Bytes per cell of the whole disk [0, size), by where requests start, all times together."""
    chosen = among[placed.usable]
    at = np.clip(placed.begin[chosen] * (cells / max(size_sectors, 1)), 0, cells - 1).astype(np.int64)
    return np.bincount(at, placed.size[chosen], cells).astype(np.float64)
