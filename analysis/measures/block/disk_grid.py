# SPDX-License-Identifier: BSD-2-Clause
"""The disk as a grid of cells of one size, row after row, so that every row can be labelled with its offset.

A cell is a power of two of sectors: what file systems align (block groups, most allocation groups) begins at
a cell's left edge. Rows that saw no I/O in the whole run are left out in one line that says how much it
stands for; so the rest is large enough to see, and the whole disk is still there. Several devices lie one
below the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64

COLUMNS = 64
MOST_LINES = 48
LEAST_CELL_SECTORS = 8  # 4 KiB
SCAN_ROWS = 1 << 16  # rows told apart at first; then joined until they fit
LEAST_GAP_ROWS = 2  # a single row without I/O is drawn
DEFINITION = (
    "each cell is an equal stretch of the disk, row after row from the left; rows without any I/O in the"
    " whole run are left out in one line"
)


@dataclass(frozen=True)
class Line:
    """One line of the grid: a row of cells, or (is_gap) some rows that saw no I/O."""

    device: int  # 0, 1, ...
    first_sector: int
    sectors: int
    is_gap: bool


@dataclass(frozen=True)
class Grid:
    """What is drawn, from the top. Cells are numbered through the rows drawn, gaps having none."""

    cell_sectors: int
    lines: list[Line]
    first_rows: I64  # of each device: its row 0 among the rows of all devices, one after the other
    drawn: I64  # the rows drawn, ascending, by that count

    @property
    def cells(self) -> int:
        """Number of cells drawn."""
        return int(self.drawn.size) * COLUMNS

    def cell(self, device: npt.NDArray[np.int64] | int, sector: I64) -> I64:
        """The cell of each place that saw I/O."""
        at = sector // self.cell_sectors
        row = at // COLUMNS + (self.first_rows[device] if self.first_rows.size > 1 else 0)
        return np.searchsorted(self.drawn, row) * COLUMNS + at % COLUMNS


class UsedRows:
    """Which rows of one device saw I/O: filled part by part."""

    def __init__(self) -> None:
        """Nothing yet; rows of the smallest cells, coarser as the disk turns out to be larger."""
        self.row_sectors = LEAST_CELL_SECTORS * COLUMNS
        self.rows = np.zeros(SCAN_ROWS, dtype=np.bool_)
        self.end = 0

    def add(self, begin: I64, end: I64) -> None:
        """Note the stretches [begin, end), in sectors, none of them empty."""
        self.end = max(self.end, int(end.max()))
        while self.end > self.row_sectors * SCAN_ROWS:
            self.rows = np.concatenate((_joined(self.rows), np.zeros(SCAN_ROWS // 2, dtype=np.bool_)))
            self.row_sectors *= 2
        # one more at each beginning, one less behind each end: the sum is how many cover a row
        change = np.bincount(begin // self.row_sectors, minlength=SCAN_ROWS + 1)
        change -= np.bincount((end - 1) // self.row_sectors + 1, minlength=SCAN_ROWS + 1)
        self.rows |= np.cumsum(change)[:SCAN_ROWS] > 0

    def at(self, row_sectors: int) -> npt.NDArray[np.bool_]:
        """The same in rows of so many sectors, a power of two not below the present one."""
        rows = self.rows
        for _ in range((row_sectors // self.row_sectors).bit_length() - 1):
            rows = _joined(rows)
        return rows


def _joined(rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Rows of twice the size."""
    if rows.size % 2:
        rows = np.append(rows, False)
    return np.asarray(rows[0::2] | rows[1::2])


def _lines(device: int, used: npt.NDArray[np.bool_], row_sectors: int, size: int) -> list[Line]:
    """The lines of one device of so many sectors (0: not known, then it ends with its last I/O)."""
    last = int(np.flatnonzero(used)[-1])
    rows = max(-(-size // row_sectors), last + 1)
    shown = np.flatnonzero(used)
    lines: list[Line] = []
    at = 0
    for row in [*(int(r) for r in shown), rows]:
        if row - at >= LEAST_GAP_ROWS:
            # the last gap ends where the disk does, not where a row would
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
    while True:
        used = {i: touched[i].at(row_sectors) for i in with_io}
        # every row with I/O is a line: the lists are made only once they may fit
        if sum(int(rows.sum()) for rows in used.values()) <= most_lines:
            lines = [line for i in with_io for line in _lines(i, used[i], row_sectors, sizes[i])]
            if len(lines) <= max(most_lines, 3 * len(with_io)):
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
