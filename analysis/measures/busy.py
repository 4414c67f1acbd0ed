# SPDX-License-Identifier: BSD-2-Clause
"""When is a device at work and when idle, and for how long was its queue how deep?

Exact: the depth (requests issued and not completed) changes only where one is issued or completes; the time
in between counts for the depth that held. Requests are cut to the recorded time. One that is handed over in
the same nanosecond as the one before completes leaves no idle period between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from analysis.measures.statistics import percentiles
from analysis.tables.block import Block
from analysis.tables.store import I64

DEFINITION = (
    "active: at least one request is issued and not completed; idle: none is. In steps, not samples: each"
    " depth's share of the recorded time, exact to the ns of the requests' own times."
)
# the depths that share a column: from each of these on
DEPTHS = (0, 1, 2, 3, 5, 9, 17, 33, 65, 129)
CHUNK = 1 << 16  # requests in memory at a time, beyond the sorted times


@dataclass(frozen=True)
class Periods:
    """Lengths (ns) of one kind of period."""

    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    longest_ns: int | None


@dataclass(frozen=True)
class Busy:
    """time_at_ns[d] is how long the depth was d; their sum is the recorded time."""

    time_at_ns: I64
    active: Periods
    idle: Periods

    @property
    def span_ns(self) -> int:
        """The recorded time."""
        return int(self.time_at_ns.sum())

    @property
    def mean_depth(self) -> float:
        """Over the recorded time."""
        return float(np.average(np.arange(self.time_at_ns.size), weights=self.time_at_ns))

    @property
    def shares(self) -> list[float]:
        """The share of time at each of DEPTHS, up to the next."""
        sums = np.add.reduceat(
            np.concatenate((self.time_at_ns, np.zeros(DEPTHS[-1] + 1, dtype=np.int64))), DEPTHS
        )
        return [float(one) / self.span_ns for one in sums]


def _periods(lengths: I64) -> Periods:
    if not lengths.size:
        return Periods(0, 0, None, None, None)
    p50, p99, longest = percentiles(lengths, (50.0, 99.0, 100.0))
    return Periods(int(lengths.size), int(lengths.sum()), p50, p99, longest)


def busy(begin_ns: I64, end_ns: I64, start_ns: int, stop_ns: int) -> Busy:
    """Depth of the intervals [begin, end) within [start, stop). Cuts and sorts its arguments in place."""
    begin, end = begin_ns, end_ns
    for times in (begin, end):
        np.clip(times, start_ns, stop_ns, out=times)
        times -= start_ns
    some = begin < end
    if not some.all():
        begin, end = begin[some], end[some]
    del begin_ns, end_ns
    begin.sort()
    end.sort()
    span = stop_ns - start_ns
    time_at = np.zeros(1, dtype=np.int64)
    idle_from: list[I64] = []
    idle_to: list[I64] = []
    depth = 0
    # the pieces end where a request begins, so none cuts an idle period
    cuts = [0, *(int(t) for t in begin[CHUNK::CHUNK]), span]
    for low, high in pairwise(cuts):
        if low == high:
            continue
        b0, b1 = np.searchsorted(begin, (low, high))
        e0, e1 = np.searchsorted(end, (low, high))
        # time and kind in one number, ends before begins at the same moment
        events = np.concatenate((begin[b0:b1] << 1 | 1, end[e0:e1] << 1))
        events.sort()
        depths = np.concatenate(([depth], depth + np.cumsum(((events & 1) << 1) - 1)))
        edges = np.concatenate(([low], events >> 1, [high]))
        lengths = np.diff(edges)
        # exact in integers: float64 weights would round sums above 2**53 ns only, which is 104 days
        part = np.bincount(depths, lengths).astype(np.int64)
        if part.size > time_at.size:
            time_at = np.concatenate((time_at, np.zeros(part.size - time_at.size, dtype=np.int64)))
        time_at[: part.size] += part
        empty = np.flatnonzero((depths == 0) & (lengths > 0))
        idle_from.append(edges[empty])
        idle_to.append(edges[empty + 1])
        depth = int(depths[-1])
    begins = np.concatenate(idle_from) if idle_from else np.zeros(0, dtype=np.int64)
    ends = np.concatenate(idle_to) if idle_to else begins
    between = np.concatenate((begins, [span])) - np.concatenate(([0], ends))
    return Busy(time_at, _periods(between[between > 0]), _periods(ends - begins))


def of_device(block: Block, start_ns: int, stop_ns: int, among: npt.NDArray[np.bool_] | None = None) -> Busy:
    """All requests whose times are in order, or those `among` them."""
    rows = block.timed if among is None else block.timed & among
    return busy(block.issue_ns[rows], block.complete_ns[rows], start_ns, stop_ns)
