# SPDX-License-Identifier: BSD-2-Clause
"""Sums over intervals of time, such as phases: of values at moments, exactly, and of bins, by overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64

Intervals = list[tuple[int, int]]


def union(intervals: Intervals) -> Intervals:
    """The intervals merged where they overlap, in order."""
    merged: Intervals = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def joined(begin: I64, end: I64) -> tuple[I64, I64]:
    """Begins and ends of the time that the intervals cover, in order."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    is_first = np.concatenate(([True], begin[1:] > end[:-1]))
    last = np.concatenate((np.flatnonzero(is_first)[1:] - 1, [begin.size - 1]))
    return begin[is_first], end[last]


def outside(intervals: Intervals, start: int, end: int) -> Intervals:
    """The parts of [start, end) outside of the intervals."""
    left: Intervals = []
    at = start
    for begin, stop in union(intervals):
        if begin > at:
            left.append((at, min(begin, end)))
        at = max(at, stop)
    if at < end:
        left.append((at, end))
    return [(a, b) for a, b in left if b > a]


def clipped(intervals: Intervals, start: int, end: int) -> Intervals:
    """The intervals cut to [start, end)."""
    return [(max(a, start), min(b, end)) for a, b in intervals if b > start and a < end]


class Moments:
    """Sums of several values at moments, over intervals whose edges are given first."""

    def __init__(self, edges: list[int], columns: int) -> None:
        self.edges = np.array(sorted(set(edges)), dtype=np.int64)
        self.sums = np.zeros(
            (columns, self.edges.size + 1)
        )  # before the first edge, between, behind the last

    def add(self, t_ns: I64, values: Sequence[npt.NDArray[Any]]) -> None:
        """Add moments, with a value of each column."""
        at = np.searchsorted(self.edges, t_ns, side="right")
        for column, value in zip(self.sums, values, strict=True):
            column += np.bincount(at, value, column.size)

    def over(self, column: int, intervals: Intervals) -> int:
        """The sum over [begin, end) of each interval; exact below 2**53."""
        up_to = np.cumsum(self.sums[column])  # until each edge
        edges = np.array(intervals, dtype=np.int64).reshape(-1, 2)
        at = np.searchsorted(self.edges, edges)
        return int((up_to[at[:, 1]] - up_to[at[:, 0]]).sum())


class Bins:
    """Sums of values recorded per bin, shared out by overlap."""

    def __init__(self, bin_ns: I64, length_ns: I64, values: I64) -> None:
        starts, first, inverse = np.unique(bin_ns, return_index=True, return_inverse=True)
        sums = np.bincount(inverse, values.astype(np.float64), starts.size)
        self.zero = int(starts[0]) if starts.size else 0
        begin = starts - self.zero
        self.begin, self.end, self.sums = begin, begin + length_ns[first], sums
        # points of the cumulative sum: flat between bins, linear within
        self.x = np.stack([begin, self.end], axis=1).reshape(-1).astype(np.float64)
        total = np.cumsum(sums)
        self.y = np.stack([total - sums, total], axis=1).reshape(-1)
        self.total = float(sums.sum())

    def over(self, intervals: Intervals) -> float:
        """The sum over the intervals."""
        if not self.x.size:
            return 0.0
        edges = np.array(intervals, dtype=np.int64).reshape(-1, 2) - self.zero
        at = np.interp(edges.astype(np.float64), self.x, self.y)
        return float((at[:, 1] - at[:, 0]).sum())

    def is_exact(self, intervals: Intervals) -> bool:
        """Whether no bin with a value spans an edge of the intervals."""
        if not self.x.size:
            return True
        edges = np.array(intervals, dtype=np.int64).reshape(-1) - self.zero
        bins = np.searchsorted(self.begin, edges, side="right") - 1
        inside = (bins >= 0) & (self.begin[bins] < edges) & (edges < self.end[bins]) & (self.sums[bins] > 0)
        return not inside.any()
