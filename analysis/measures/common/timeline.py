# SPDX-License-Identifier: BSD-2-Clause
"""The run's time axis, cut into bins whose real lengths are kept.

Bins are a whole number of recorder bins (100 ms) long and lie on their grid, so calls and lock waits fall
into exactly one. A first or last bin shorter than half a bin is joined to its neighbour: a rate is always
count / real length, and no sliver of a bin becomes a spike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64, Ints

F64 = npt.NDArray[np.float64]
NICE = (1, 2, 5)


@dataclass(frozen=True)
class Timeline:
    """Bin edges in CLOCK_MONOTONIC ns; `zero_ns` is the moment shown as 0 s."""

    zero_ns: int
    edges_ns: I64
    grid_ns: int  # where the first whole bin would begin
    width_ns: int
    first: int  # grid bins joined into bin 0 beyond the first

    @property
    def bins(self) -> int:
        """Number of bins."""
        return int(self.edges_ns.size) - 1

    @property
    def lengths_s(self) -> F64:
        """Real length of each bin."""
        return np.diff(self.edges_ns) / 1e9

    @property
    def edges_s(self) -> F64:
        """Bin edges in seconds from the shown zero."""
        return (self.edges_ns - self.zero_ns) / 1e9

    @property
    def middles_s(self) -> F64:
        """Middles of the bins in seconds from the shown zero."""
        return (self.edges_s[1:] + self.edges_s[:-1]) / 2

    def index(self, t_ns: I64) -> npt.NDArray[np.int64]:
        """The bin of each moment; what lies outside counts in the nearest bin, so nothing is dropped."""
        return np.clip((t_ns - self.grid_ns) // self.width_ns - self.first, 0, self.bins - 1)

    def sums(self, t_ns: I64, values: Ints | None = None) -> F64:
        """Sum of values (or the count) per bin. Sums stay exact below 2**53."""
        weights = None if values is None else values.astype(np.float64)
        return np.bincount(self.index(t_ns), weights, self.bins).astype(np.float64)

    def rates(self, t_ns: I64, values: Ints | None = None) -> F64:
        """Sum per bin divided by the bin's real length: per second."""
        return self.sums(t_ns, values) / self.lengths_s


def nice_width_ns(span_ns: int, bins: int, quantum_ns: int) -> int:
    """The smallest 1, 2 or 5 times a power of ten of quanta that cuts the span into at most `bins` bins."""
    power = 1
    while True:
        for factor in NICE:
            width = quantum_ns * power * factor
            if span_ns <= width * bins:
                return width
        power *= 10


def make_timeline(start_ns: int, end_ns: int, zero_ns: int, width_ns: int, quantum_ns: int) -> Timeline:
    """Cut [start_ns, end_ns] into bins of width_ns, first and last ones as they come."""
    end_ns = max(end_ns, start_ns + 1)
    grid = start_ns // quantum_ns * quantum_ns
    inner = np.arange(grid + width_ns, end_ns, width_ns, dtype=np.int64)
    inner = inner[inner > start_ns]
    first = 0
    if inner.size and (inner[0] - start_ns) * 2 < width_ns:
        inner = inner[1:]
        first = 1
    if inner.size and (end_ns - inner[-1]) * 2 < width_ns:
        inner = inner[:-1]
    edges = np.concatenate(([start_ns], inner, [end_ns])).astype(np.int64)
    return Timeline(zero_ns=zero_ns, edges_ns=edges, grid_ns=grid, width_ns=width_ns, first=first)
