# SPDX-License-Identifier: BSD-2-Clause
"""Sums of rows by key and time bin: the entries of a cube, exact at the edges of its bins.

Bins of a table that has bins are its own, so that each row lies in one; a row of several bins, which one
state fills, is divided among them to the nanosecond. Where the entries are too many for the page, bins are
joined in pairs: sums of windows at the edges that are left stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from analysis.measures.common.timeline import F64, nice_width_ns
from analysis.page.columns import EXACT, Column, deflated_bytes
from analysis.page.data import Asked, Entries
from analysis.tables.store import I64

MOST_BINS = 8192  # of tables with bins
EVEN_BINS = 2000  # of moments and intervals
MOST_ENTRIES = 1_000_000
MOST_CELLS = 1 << 24  # bins x keys that are numbered by a table, not by sorting
MOST_PIECES = 4_000_000  # of rows divided among bins, before they are summed
SHARE = 40  # a cube takes at most this part of the page's bytes
MICROSECOND = 1000
TOO_LARGE = "a sum is beyond 2^53, which this page cannot show exactly"
LONG = 1 << 30  # ns; two of them can be multiplied

At = Literal["start", "end", "divided"]


@dataclass(frozen=True)
class Amount:
    """A figure of each row. at: whole in the bin that has the row's start or end; or divided by overlap.

    is_max: the largest is kept, not the sum; such a figure is never divided.
    """

    values: I64
    at: At = "end"
    is_max: bool = False


@dataclass(frozen=True)
class Binned:
    """Sums by bin and key, sorted by both. edges: ns since the page's zero."""

    edges: I64
    bin: I64
    key: I64
    values: Sequence[I64]
    is_max: Sequence[bool]
    why: str = ""  # why there are no entries although there are rows

    @property
    def bin_text(self) -> str:
        """The length of the bins, for readers who wonder to what a window snaps."""
        lengths = np.diff(self.edges)
        if not lengths.size:
            return ""
        return f"{lengths.size:,} bins of {float(np.median(lengths)) / 1e6:,.6g} ms (median)"

    def entries(self) -> Entries:
        """As the page holds them."""
        return Entries(
            Column(self.bin, "du"), Column(self.key, "ds"), [Column.of(values) for values in self.values]
        )

    @property
    def edge_column(self) -> Column:
        """The edges as the page holds them."""
        return Column(self.edges, "ds")

    def sums(self, keys: int, value: int = 0) -> I64:
        """Sum over all bins by key."""
        found = np.zeros(keys, dtype=np.int64)
        np.add.at(found, self.key, self.values[value])
        return found


def row_edges(asked: Asked, start: I64, end: I64, most: int = MOST_BINS) -> I64:
    """Edges at the begins and ends of a table's bins, the page's first and last moment among them.

    Absolute times. Of more than `most` bins every second, third, ... edge is taken.
    """
    low, high = _bounds(asked)
    edges = np.unique(np.concatenate((start, end)))
    edges = edges[(edges > low) & (edges < high)]
    step = -(-edges.size // max(min(most, asked.budget.most_bins), 1))
    return np.concatenate(([low], edges[:: max(step, 1)], [high])).astype(np.int64)


def even_edges(asked: Asked, most: int = EVEN_BINS) -> I64:
    """Edges a round number of microseconds apart, counted from the page's zero. Absolute times."""
    low, high = _bounds(asked)
    width = nice_width_ns(high - low, min(most, asked.budget.most_bins), MICROSECOND)
    first = asked.zero_ns + ((low - asked.zero_ns) // width + 1) * width
    inner = np.arange(first, high, width, dtype=np.int64)
    return np.concatenate(([low], inner[inner > low], [high])).astype(np.int64)


def _bounds(asked: Asked) -> tuple[int, int]:
    low = asked.zero_ns + asked.start_ns
    return low, max(asked.zero_ns + asked.end_ns, low + 1)


def bin_of(edges: I64, t: I64) -> I64:
    """The bin of each moment; what lies outside counts in the nearest bin, so that nothing is dropped."""
    return np.clip(np.searchsorted(edges, t, side="right") - 1, 0, edges.size - 2)


def binned(asked: Asked, edges: I64, key: I64, start: I64, end: I64, amounts: Sequence[Amount]) -> Binned:
    """Sum rows [start, end) of absolute times; a moment ends as it starts."""
    is_max = tuple(amount.is_max for amount in amounts)
    if not all(_is_exact(amount) for amount in amounts):
        none = np.zeros(0, dtype=np.int64)
        return Binned(edges - asked.zero_ns, none, none, [none] * len(amounts), is_max, TOO_LARGE)
    first = bin_of(edges, start)
    last = np.maximum(bin_of(edges, np.maximum(end - 1, start)), first)
    if any(amount.at == "divided" for amount in amounts):
        while edges.size > 2 and int((last - first + 1).sum()) > MOST_PIECES:
            edges = np.append(edges[:-1:2], edges[-1])
            first, last = first // 2, last // 2
    span = _span(key)
    cells, columns = [], []
    for amount in amounts:
        if amount.at == "divided":
            row, at, part = _divided(edges, first, last, start, end, amount.values)
            cells.append(at * span + key[row])
        else:
            cells.append((first if amount.at == "start" else last) * span + key)
            part = amount.values
        columns.append(part)
    size = (edges.size - 1) * span
    if size <= MOST_CELLS:
        used = np.zeros(size, dtype=np.bool_)
        for one in cells:
            used[one] = True
        cell = np.flatnonzero(used)
        place = np.zeros(size, dtype=np.int32)
        place[cell] = np.arange(cell.size, dtype=np.int32)
        places = [place[one] for one in cells]
    else:
        cell = np.unique(np.concatenate(cells))
        places = [np.searchsorted(cell, one) for one in cells]
    values = [
        _summed(at, column, cell.size, amount.is_max)
        for at, column, amount in zip(places, columns, amounts, strict=True)
    ]
    found = Binned(edges - asked.zero_ns, cell // span, cell % span, values, is_max)
    return _fitted(_without_zeros(found), asked.budget.bytes // SHARE)


def of_cells(asked: Asked, edges: I64, sums: Sequence[I64]) -> Binned:
    """Of matrices keys x bins that were summed elsewhere."""
    key, bin_ = np.nonzero(np.any([one != 0 for one in sums], axis=0))
    order = np.lexsort((key, bin_))
    key, bin_ = key[order].astype(np.int64), bin_[order].astype(np.int64)
    found = Binned(
        edges - asked.zero_ns, bin_, key, [one[key, bin_] for one in sums], tuple(False for _ in sums)
    )
    return _fitted(found, asked.budget.bytes // SHARE)


def _is_exact(amount: Amount) -> bool:
    """Whether JavaScript holds any sum of these figures exactly."""
    sizes = np.abs(amount.values.astype(np.float64))
    return float(sizes.max(initial=0.0) if amount.is_max else sizes.sum()) < EXACT


def _span(key: I64) -> int:
    return int(key.max(initial=0)) + 1


def _summed(of: npt.NDArray[np.integer], values: I64, size: int, is_max: bool) -> I64:
    """Sum or maximum by number. The values' sum is below 2^53, so that floats are exact."""
    if not is_max:
        return np.bincount(of, values.astype(np.float64), size).astype(np.int64)
    found = np.zeros(size, dtype=np.int64)
    np.maximum.at(found, of, values)
    return found


def _without_zeros(found: Binned) -> Binned:
    some = np.any([values != 0 for values in found.values], axis=0)
    return _rows(found, np.flatnonzero(some))


def _rows(found: Binned, rows: npt.NDArray[np.intp]) -> Binned:
    return replace(
        found, bin=found.bin[rows], key=found.key[rows], values=[values[rows] for values in found.values]
    )


def _divided(
    edges: I64, first: I64, last: I64, start: I64, end: I64, values: I64
) -> tuple[npt.NDArray[np.intp], I64, I64]:
    """Row, bin and part of the value of each piece. What lies outside the edges counts in the nearest bin.

    Until a moment a row has had floor(value * time / length) of its value: of a row that one state fills,
    whose value is its length, just the time.
    """
    pieces = last - first + 1
    row = np.repeat(np.arange(first.size), pieces)
    number = np.arange(row.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    at = first[row] + number
    value = values[row]
    several = pieces[row] > 1
    part = value.copy()
    some = np.flatnonzero(several)
    begin, length, whole = start[row[some]], (end - start)[row[some]], value[some]
    before = np.where(number[some] == 0, 0, _until(whole, edges[at[some]] - begin, length))
    after = np.where(at[some] == last[row[some]], whole, _until(whole, edges[at[some] + 1] - begin, length))
    part[some] = after - before
    return row, at, part


def _until(value: I64, time: I64, length: I64) -> I64:
    """floor(value * time / length), exact; of a row that one state fills the time itself."""
    found = time.copy()
    partly = value != length
    small = partly & (np.abs(value) < LONG) & (np.abs(time) < LONG)
    found[small] = value[small] * time[small] // np.maximum(length[small], 1)
    rest = np.flatnonzero(partly & ~small)
    found[rest] = [
        int(value[i]) * int(time[i]) // max(int(length[i]), 1) for i in rest.tolist()
    ]  # beyond 64 bits: few rows
    return found


def _size(found: Binned) -> int:
    """Deflated bytes."""
    entries = found.entries()
    return deflated_bytes((found.edge_column, entries.bin, entries.key, *entries.values))


def _fitted(found: Binned, most_bytes: int) -> Binned:
    """With bins joined in pairs until the entries are few enough."""
    while found.edges.size > 2 and (found.bin.size > MOST_ENTRIES or _size(found) > most_bytes):
        span = _span(found.key)
        cell, of = np.unique((found.bin // 2) * span + found.key, return_inverse=True)
        values = [
            _summed(of, column, cell.size, is_max)
            for column, is_max in zip(found.values, found.is_max, strict=True)
        ]
        edges = np.append(found.edges[:-1:2], found.edges[-1])
        found = Binned(edges, cell // span, cell % span, values, found.is_max)
    return found


class Rounding:
    """Makes estimates of rows whole numbers: sums of a key up to any moment are off by 1/2 at most.

    What is a whole number but for the error of its arithmetic comes out as that number.
    """

    def __init__(self, key: I64, t: I64) -> None:
        self._order = np.lexsort((t, key))
        in_order = key[self._order]
        self._begins = np.flatnonzero(np.diff(in_order, prepend=-1) != 0)
        self._counts = np.diff(np.append(self._begins, key.size))

    def whole(self, values: F64) -> I64:
        """The values of the rows as whole numbers."""
        begins = self._begins
        sums = np.cumsum(values[self._order])
        base = np.where(begins > 0, sums[begins - 1], 0.0) if begins.size else sums[:0]
        rounded = np.rint(sums - np.repeat(base, self._counts)).astype(np.int64)
        steps = np.diff(rounded, prepend=np.int64(0))
        steps[begins] = rounded[begins]
        found = np.zeros(values.size, dtype=np.int64)
        found[self._order] = steps
        return found
