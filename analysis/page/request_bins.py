# SPDX-License-Identifier: BSD-2-Clause
"""Exact sums of requests by time bin and key: the entries of a cube.

Bins are equal and whole microseconds long, so the windows that snap to them can be asked of the tables too.
Where the entries would take more than their share of the page, bins are joined in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analysis.page.columns import EXACT, Column, deflated_bytes
from analysis.page.data import Entries
from analysis.tables.block import parts
from analysis.tables.store import I64, Ints

US = 1000  # ns: edges are whole microseconds
MOST_ENTRIES = 2_000_000  # of a cube
MOST_CELLS = 1 << 23  # bins x keys while entries are counted
PART_ROWS = 1 << 18


@dataclass(frozen=True)
class Grid:
    """Bins of one length; the last may be shorter. Times are ns since the run's zero, whole microseconds."""

    start_ns: int
    end_ns: int
    width_ns: int

    @property
    def bins(self) -> int:
        """Number of bins, at least one."""
        return -(-(self.end_ns - self.start_ns) // self.width_ns)

    def edges(self) -> Column:
        """Begin of each bin, and the end of the last."""
        begins = self.start_ns + np.arange(self.bins, dtype=np.int64) * self.width_ns
        return Column(np.append(begins, self.end_ns), "ds")

    def joined(self) -> Grid:
        """The grid of bins of twice the length."""
        return replace(self, width_ns=2 * self.width_ns)

    def bin(self, since_zero_ns: I64) -> I64:
        """The bin of each time; -1: outside of the grid."""
        bin_ = (since_zero_ns - self.start_ns) // self.width_ns
        is_inside = (since_zero_ns >= self.start_ns) & (since_zero_ns < self.end_ns)
        return np.where(is_inside, bin_, -1)


def make_grid(start_ns: int, end_ns: int, most_bins: int) -> Grid:
    """At most so many bins over a time, widened to whole microseconds."""
    start, end = start_ns // US * US, -(-end_ns // US) * US
    end = max(end, start + US)
    width = -(-(end - start) // (max(most_bins, 1) * US)) * US
    return Grid(start, end, width)


@dataclass(frozen=True)
class Sums:
    """The sums of each key in each bin that has a request, sorted by bin, then by key."""

    grid: Grid
    keys: int
    cell: I64  # bin * keys + key, ascending
    values: Sequence[I64]

    def joined(self) -> Sums:
        """The sums over bins of twice the length."""
        bin_, key = self.cell // self.keys, self.cell % self.keys
        cell, place = np.unique(bin_ // 2 * self.keys + key, return_inverse=True)
        values = [np.zeros(cell.size, dtype=np.int64) for _ in self.values]
        for joined, apart in zip(values, self.values, strict=True):
            np.add.at(joined, place, apart)
        return replace(self, grid=self.grid.joined(), cell=cell, values=values)

    def entries(self) -> Entries:
        """The columns of a cube."""
        return Entries(
            Column(self.cell // self.keys, "du"),
            Column(self.cell % self.keys, "ds"),
            [Column.of(values) for values in self.values],
        )

    def deflated_bytes(self) -> int:
        """Size of the entries in the page, before base64."""
        made = self.entries()
        return deflated_bytes([made.bin, made.key, *made.values])

    def fit(self, most_bytes: int) -> Sums:
        """The sums, with bins joined until they take at most so many bytes."""
        sums = self
        while sums.grid.bins > 1 and (
            sums.cell.size > MOST_ENTRIES or sums.deflated_bytes() > max(most_bytes, 1)
        ):
            sums = sums.joined()
        return sums


def is_exact(rows: int, values: Callable[[slice], npt.NDArray[np.signedinteger]]) -> bool:
    """Whether any sum over these rows stays below 2^53. values: of a slice of the rows."""
    bound = 0  # of the sum: cheaper than the sum itself
    for at in parts(rows, PART_ROWS):
        part = values(at)
        bound += part.size * max(abs(int(part.max(initial=0))), abs(int(part.min(initial=0))))
    if bound < EXACT:
        return True
    total = 0.0
    for at in parts(rows, PART_ROWS):
        total += float(np.abs(values(at).astype(np.float64)).sum())
    return total < EXACT


def sum_up(
    grid: Grid,
    issue_ns: I64,
    zero_ns: int,
    keys: Ints,
    key_count: int,
    values: Sequence[Callable[[slice], npt.NDArray[np.signedinteger]]],
) -> Sums:
    """Sum the values of requests by the bin of their issue and by key.

    issue_ns: CLOCK_MONOTONIC. keys: of each request, -1: in no key. values: of a slice of the requests; each
    must be is_exact(). Requests outside of the grid are in no bin.
    """
    key_count = max(key_count, 1)
    while grid.bins > 1 and grid.bins * key_count > MOST_CELLS:
        grid = grid.joined()
    rows = int(issue_ns.size)
    cell_of_row = np.empty(rows, dtype=np.int32)
    is_used = np.zeros(grid.bins * key_count, dtype=np.bool_)
    for at in parts(rows, PART_ROWS):
        bin_ = grid.bin(issue_ns[at] - zero_ns)
        cell_of_row[at] = np.where((bin_ >= 0) & (keys[at] >= 0), bin_ * key_count + keys[at], -1)
        used = cell_of_row[at]
        is_used[used[used >= 0]] = True
    cells = np.flatnonzero(is_used)
    place_of_cell = np.zeros(is_used.size, dtype=np.int32)
    place_of_cell[cells] = np.arange(cells.size, dtype=np.int32)
    sums = [np.zeros(cells.size) for _ in values]
    for at in parts(rows, PART_ROWS):
        is_inside = cell_of_row[at] >= 0
        if not is_inside.any():
            continue
        place = place_of_cell[cell_of_row[at][is_inside]]
        low = int(place.min())  # requests are nearly in the order of time: few places a part
        places = int(place.max()) - low + 1
        for sum_, value in zip(sums, values, strict=True):
            # sums of whole numbers below 2^53 are exact in floats
            sum_[low : low + places] += np.bincount(place - low, value(at)[is_inside], places)
    return Sums(grid, key_count, cells.astype(np.int64), [sum_.astype(np.int64) for sum_ in sums])
