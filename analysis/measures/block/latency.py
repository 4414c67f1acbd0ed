# SPDX-License-Identifier: BSD-2-Clause
"""Request latency: Q2D, D2C and Q2C, as in blktrace.

Q2D: queue to issue (waiting in the kernel). D2C: issue to completion (the device). Q2C: queue to completion.
Percentiles are exact, by nearest rank. Requests whose times are out of order are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.common.group_percentiles import percentiles, sorted_runs
from analysis.measures.common.timeline import F64, Timeline
from analysis.tables.block import Block, parts
from analysis.tables.store import I64, Ints

DEFINITION = (
    "Q2D: queue to issue; D2C: issue to completion (the device); Q2C: queue to"
    " completion. Percentiles are exact, by nearest rank."
)
PERCENTS = (50.0, 90.0, 99.0, 99.9, 100.0)
# a key of 24 bits of bin and 40 of latency sorts both at once; a latency above 2**40 ns (18 min) is cut to it
LATENCY_BITS = 40
LONGEST_NS = (1 << LATENCY_BITS) - 1


@dataclass(frozen=True)
class LatencyRow:
    """Percentiles (ns, at PERCENTS) of one stage over one set of requests."""

    stage: str
    count: int
    at_ns: list[int]


STAGES = ("Q2D", "D2C", "Q2C")


@dataclass(frozen=True)
class Stages:
    """Times (ns) by stage, one sorted run per code, of the requests whose times are in order."""

    runs: dict[str, list[Ints]]

    def of(self, codes: Sequence[int], only: str = "") -> list[LatencyRow]:
        """Percentiles over the requests of these codes: of Q2D, D2C and Q2C, or of the stage `only`."""
        rows = []
        for stage in (only,) if only else STAGES:
            if stage not in self.runs:
                continue
            runs = [self.runs[stage][code] for code in codes]
            count = sum(run.size for run in runs)
            if count:
                rows.append(LatencyRow(stage, count, percentiles(runs, PERCENTS)))
        return rows


def stages(block: Block, codes: Ints, counts: Sequence[int], which: Sequence[str] = STAGES) -> Stages:
    """Sort the times by code. codes: of each row; counts: rows per code. No Q2D without recorded queueing."""

    def times(stage: str) -> Iterator[tuple[Ints, I64]]:
        begin = block.issue_ns if stage == "D2C" else block.queue_ns
        end = block.issue_ns if stage == "Q2D" else block.complete_ns
        for at in parts(block.rows):
            timed = block.timed[at]
            yield codes[at][timed], (end[at] - begin[at])[timed]

    return Stages(
        {stage: sorted_runs(counts, times(stage)) for stage in which if stage != "Q2D" or block.queue_seen}
    )


@dataclass(frozen=True)
class LatencySeries:
    """Per time bin (of completion): percentiles of a stage in ns; NaN where no request completed."""

    p50_ns: F64
    p99_ns: F64
    max_ns: F64


def series(
    block: Block, among: npt.NDArray[np.bool_], timeline: Timeline, stage: str = "Q2C"
) -> LatencySeries:
    """Exact percentiles per bin of the requests `among`, by one sort over (bin, latency).

    stage: Q2C or D2C.
    """
    begin = block.issue_ns if stage == "D2C" else block.queue_ns
    rows = among & block.timed
    ordered = np.empty(int(np.count_nonzero(rows)), dtype=np.int64)
    counts = np.zeros(timeline.bins, dtype=np.int64)
    done = 0
    for part in parts(block.rows):
        timed = rows[part]
        end = block.complete_ns[part][timed]
        bins = timeline.index(end)
        counts += np.bincount(bins, minlength=timeline.bins)
        taken = np.minimum(end - begin[part][timed], LONGEST_NS)
        ordered[done : done + bins.size] = (bins << LATENCY_BITS) | taken
        done += bins.size
    ordered.sort()
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    empty = counts == 0

    def at(percent: float) -> F64:
        ranks = np.clip(np.ceil(percent / 100 * counts - 1e-9).astype(np.int64), 1, np.maximum(counts, 1)) - 1
        if not ordered.size:
            return np.full(timeline.bins, np.nan)
        latencies = ordered[np.minimum(starts + ranks, ordered.size - 1)] & LONGEST_NS
        values: F64 = latencies.astype(np.float64)
        values[empty] = np.nan
        return values

    return LatencySeries(at(50), at(99), at(100))
