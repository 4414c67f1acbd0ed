# SPDX-License-Identifier: BSD-2-Clause
"""How long does a request take?

Q2D: queue to issue (waiting in the kernel). D2C: issue to completion (the device). Q2C: queue to
completion (all of it). As in blktrace. Percentiles are exact, by nearest rank. Rows whose times are out
of order are left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.statistics import percentiles
from analysis.measures.timeline import F64, Timeline
from analysis.tables.block import Block
from analysis.tables.store import I64

DEFINITION = (
    "Q2D: queue to issue; D2C: issue to completion (the device); Q2C: queue to"
    " completion. Percentiles are exact, by nearest rank."
)
PERCENTS = (50.0, 90.0, 99.0, 99.9, 100.0)
# a key of 24 bits of bin and 40 of latency sorts both at once; 2**40 ns is 18 minutes, longer counts as that
LATENCY_BITS = 40


@dataclass(frozen=True)
class LatencyRow:
    """Percentiles (ns, at PERCENTS) of one stage over one set of requests."""

    stage: str
    count: int
    at_ns: list[int]


def stages(block: Block, among: npt.NDArray[np.bool_], only: str = "") -> list[LatencyRow]:
    """Q2D, D2C and Q2C (or `only` one of them) over the rows `among` whose times are in order."""
    rows = among & block.timed
    count = int(rows.sum())
    if not count:
        return []
    queue, issue, complete = block.queue_ns[rows], block.issue_ns[rows], block.complete_ns[rows]
    return [
        LatencyRow(name, count, percentiles(later - earlier, PERCENTS))
        for name, earlier, later in (
            ("Q2D", queue, issue),
            ("D2C", issue, complete),
            ("Q2C", queue, complete),
        )
        if only in ("", name)
    ]


@dataclass(frozen=True)
class LatencySeries:
    """Per time bin (of completion): percentiles of Q2C in ns; NaN where no request completed."""

    p50_ns: F64
    p99_ns: F64
    max_ns: F64


def series(block: Block, among: npt.NDArray[np.bool_], timeline: Timeline) -> LatencySeries:
    """Exact percentiles per bin by one sort over (bin, latency)."""
    rows = among & block.timed
    bins = timeline.index(block.complete_ns[rows])
    latency = np.minimum(block.complete_ns[rows] - block.queue_ns[rows], (1 << LATENCY_BITS) - 1)
    ordered: I64 = np.sort((bins << LATENCY_BITS) | latency) & ((1 << LATENCY_BITS) - 1)
    counts = np.bincount(bins, minlength=timeline.bins)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    empty = counts == 0

    def at(percent: float) -> F64:
        ranks = np.clip(np.ceil(percent / 100 * counts - 1e-9).astype(np.int64), 1, np.maximum(counts, 1)) - 1
        if not ordered.size:
            return np.full(timeline.bins, np.nan)
        values: F64 = ordered[np.minimum(starts + ranks, ordered.size - 1)].astype(np.float64)
        values[empty] = np.nan
        return values

    return LatencySeries(at(50), at(99), at(100))
