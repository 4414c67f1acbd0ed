# SPDX-License-Identifier: BSD-2-Clause
"""The matrix of iomatrix: KiB/s by operation, file size and record size, and the disk's part in each cell.

A cell is one operation on one file with one record size. The workload reports when a cell ran, its first and
last inode (a repeated write makes a new file each time), its bytes and its time. Reads and writes of the disk
in that time come from the block table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.block import Block
from analysis.tables.result import Figures, Value

CELLS = "iomatrix cell"  # the workload's table
CACHED, SOME, DISK = "", "+", "d"
DEFINITION = (
    "cell: KiB/s (1024 B) of one operation on one file. d: the disk carried at least half of the cell's bytes"
    " (requests of the cell's file, in the cell's time and direction); +: less than half; no mark: none, the"
    " page cache alone. Requests of other files do not count."
)


@dataclass(frozen=True)
class Cell:
    """One operation on one file with one record size."""

    operation: str
    file_kib: int
    record_kib: int
    kib_per_s: float
    times: int  # repetitions, as a single operation is too short for the clock
    moved_bytes: int  # by all repetitions together
    disk_bytes: int | None  # None: no block table

    @property
    def mark(self) -> str:
        """DISK, SOME or CACHED: how much of the bytes the disk carried."""
        if not self.disk_bytes:
            return CACHED
        return DISK if 2 * self.disk_bytes >= self.moved_bytes else SOME


@dataclass(frozen=True)
class Matrix:
    """The cells in the order they ran."""

    cells: list[Cell]
    seen: bool  # whether a block table gives the disk's part


def _whole(row: dict[str, Value], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def measure_matrix(figures: Figures | None, block: Block | None) -> Matrix | None:
    """The matrix, None if the workload was not iomatrix. Rows with invalid values are left out."""
    rows = figures.tables.get(CELLS, []) if figures else []
    if not rows:
        return None
    by_op: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for op in ("read", "write") if block is not None else ():
        assert block is not None
        data_rows = np.flatnonzero(
            block.op.is_(op) & block.class_.is_in(("data", "unknown")) & (block.bytes > 0)
        )
        data_rows = data_rows[np.argsort(block.complete_ns[data_rows], kind="stable")]
        by_op[op] = (block.complete_ns[data_rows], block.bytes[data_rows], block.ino[data_rows])
    cells = []
    for row in rows:
        operation, speed = row.get("operation"), row.get("kib_per_s")
        start, end = _whole(row, "start_ns"), _whole(row, "end_ns")
        if not isinstance(operation, str) or not isinstance(speed, (int, float)) or not 0 < start <= end:
            continue
        disk = None
        if by_op:
            complete, size, ino = by_op["read" if "read" in operation else "write"]
            low, high = np.searchsorted(complete, (start, end), side="left")
            # without an inode (file systems that hide it) it may be the cell's: only one runs at a time
            first, last = (_whole(row, name) or _whole(row, "ino") for name in ("ino_min", "ino_max"))
            inodes = ino[low:high]
            in_file = (inodes == 0) | ((inodes >= first) & (inodes <= last))
            disk = int(size[low:high][in_file].sum(dtype=np.int64))
        cells.append(
            Cell(
                operation=operation,
                file_kib=_whole(row, "file_kib"),
                record_kib=_whole(row, "record_kib"),
                kib_per_s=float(speed),
                times=_whole(row, "times"),
                moved_bytes=_whole(row, "bytes"),
                disk_bytes=disk,
            )
        )
    return Matrix(cells, block is not None) if cells else None
