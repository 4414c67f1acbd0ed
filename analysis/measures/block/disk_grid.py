# SPDX-License-Identifier: BSD-2-Clause
"""Grid of the disk for the movie: lines of COLUMNS cells, all cells of one power-of-two number of sectors.

Aligned structures (block groups, most allocation groups) thus begin at a cell's left edge, and each line has
one offset as its label. Consecutive rows without I/O in the whole run are one gap line, labelled with the
bytes it stands for. Several devices lie one below the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64

COLUMNS = 64
MOST_LINES = 48
LEAST_LINES = 3  # of a device with I/O, however many devices there are: a row between two gaps
LEAST_CELL_SECTORS = 8  # 4 KiB
SCAN_ROWS = 1 << 16  # rows of UsedRows; make_grid() then joins rows until the lines fit
LEAST_GAP_ROWS = 2  # a single row without I/O is drawn, not a gap
DEFINITION = (
    "each cell is an equal stretch of the disk, row after row from the left; rows without any I/O in the"
    " whole run are left out in one line"
)


@dataclass(frozen=True)
class Line:
    """One line of the grid: a row of cells, or (is_gap) consecutive rows without I/O."""

    device: int  # 0, 1, ...
    first_sector: int
    sectors: int
    is_gap: bool


@dataclass(frozen=True)
class Grid:
    """The lines drawn, from the top. Cells are numbered through the rows drawn; gaps have no cells."""

    cell_sectors: int
    lines: list[Line]
    first_rows: I64  # by device: number of its row 0 when the rows of all devices are counted through
    drawn: I64  # numbers of the rows drawn in the same count, ascending

    @property
    def cells(self) -> int:
        """Number of cells drawn."""
        return int(self.drawn.size) * COLUMNS

    def cell(self, device: npt.NDArray[np.int64] | int, sector: I64) -> I64:
        """The cell number of each sector (one that saw I/O) of these devices."""
        at = sector // self.cell_sectors
        row = at // COLUMNS + (self.first_rows[device] if self.first_rows.size > 1 else 0)
        return np.searchsorted(self.drawn, row) * COLUMNS + at % COLUMNS


class UsedRows:
    """Rows of one device with I/O, filled in parts. Rows double in size when a sector exceeds SCAN_ROWS."""

    def __init__(self) -> None:
        """Start with no I/O and rows of the smallest cells."""
        self.row_sectors = LEAST_CELL_SECTORS * COLUMNS
        self.rows = np.zeros(SCAN_ROWS, dtype=np.bool_)
        self.end = 0

    def add(self, begin: I64, end: I64) -> None:
        """Mark the rows of the stretches [begin, end), in sectors; no stretch may be empty."""
        self.end = max(self.end, int(end.max()))
        while self.end > self.row_sectors * SCAN_ROWS:
            self.rows = np.concatenate((_joined(self.rows), np.zeros(SCAN_ROWS // 2, dtype=np.bool_)))
            self.row_sectors *= 2
        # +1 at the row of each begin, -1 behind the row of each end: the sum counts the stretches in a row
        change = np.bincount(begin // self.row_sectors, minlength=SCAN_ROWS + 1)
        change -= np.bincount((end - 1) // self.row_sectors + 1, minlength=SCAN_ROWS + 1)
        self.rows |= np.cumsum(change)[:SCAN_ROWS] > 0

    def at(self, row_sectors: int) -> npt.NDArray[np.bool_]:
        """Mask of rows with I/O at row_sectors sectors a row: self.row_sectors times a power of two."""
        rows = self.rows
        for _ in range((row_sectors // self.row_sectors).bit_length() - 1):
            rows = _joined(rows)
        return rows


def _joined(rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The mask for rows of twice the size."""
    if rows.size % 2:
        rows = np.append(rows, False)
    return np.asarray(rows[0::2] | rows[1::2])


def _lines(device: int, used: npt.NDArray[np.bool_], row_sectors: int, size: int) -> list[Line]:
    """The lines of one device. size: in sectors; 0: not known, the device ends with its last I/O."""
    last = int(np.flatnonzero(used)[-1])
    rows = max(-(-size // row_sectors), last + 1)
    shown = np.flatnonzero(used)
    lines: list[Line] = []
    at = 0
    for row in [*(int(r) for r in shown), rows]:
        if row - at >= LEAST_GAP_ROWS:
            # the last gap ends at the end of the disk, not at the end of a row
            end = min(row * row_sectors, size) if row == rows and size else row * row_sectors
            lines.append(Line(device, at * row_sectors, end - at * row_sectors, True))
            at = row
        lines += [Line(device, r * row_sectors, row_sectors, False) for r in range(at, min(row + 1, rows))]
        at = row + 1
    return lines


def make_grid(touched: Sequence[UsedRows], sizes: Sequence[int], most_lines: int = MOST_LINES) -> Grid | None:
    """The grid with the smallest cells that fits; None: no I/O anywhere. sizes: in sectors, 0: not known."""
    with_io = [i for i, device in enumerate(touched) if device.rows.any()]
    if not with_io:
        return None
    row_sectors = max(touched[i].row_sectors for i in with_io)
    most = max(most_lines, LEAST_LINES * len(with_io))
    while True:
        used = {i: touched[i].at(row_sectors) for i in with_io}
        # every row with I/O is at least a line: build the lists only if they can fit
        if sum(int(rows.sum()) for rows in used.values()) <= most:
            lines = [line for i in with_io for line in _lines(i, used[i], row_sectors, sizes[i])]
            if len(lines) <= most:
                break
        row_sectors *= 2
    return _grid(lines, row_sectors, len(touched))


def _grid(lines: Iterable[Line], row_sectors: int, devices: int) -> Grid:
    lines = list(lines)
    first_rows, base = [], 0
    for device in range(devices):
        first_rows.append(base)
        ends = [line.first_sector + line.sectors for line in lines if line.device == device]
        base += -(-max(ends, default=0) // row_sectors)
    drawn = [first_rows[line.device] + line.first_sector // row_sectors for line in lines if not line.is_gap]
    return Grid(
        row_sectors // COLUMNS,
        lines,
        np.array(first_rows, dtype=np.int64),
        np.array(drawn, dtype=np.int64),
    )
