# SPDX-License-Identifier: BSD-2-Clause
"""Device utilization: active and idle periods, and the time at each queue depth.

Exact: the depth (requests issued and not completed) changes only where a request is issued or completes; the
time in between counts for the depth that held. Requests are cut to the recorded time. A request issued in the
nanosecond in which the one before completes leaves no idle period.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.common.statistics import percentiles
from analysis.measures.common.timeline import Timeline
from analysis.measures.device.depth_steps import in_order, steps
from analysis.measures.device.queue_depth import Depth, Highest, depth_of
from analysis.tables.block import Block
from analysis.tables.store import I64

DEFINITION = (
    "active: at least one request is issued and not completed; idle: no request is. Shares of the recorded"
    " time are exact, from the requests' own times in ns."
)
# lower bounds of the depth ranges that share a column
DEPTHS = (0, 1, 2, 3, 5, 9, 17, 33, 65, 129)


@dataclass(frozen=True)
class Periods:
    """Lengths (ns) of one kind of period."""

    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    longest_ns: int | None


@dataclass(frozen=True)
class Utilization:
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
        """Mean queue depth over the recorded time."""
        return float(np.average(np.arange(self.time_at_ns.size), weights=self.time_at_ns))

    @property
    def shares(self) -> list[float]:
        """Share of time (0..1) in each depth range, from one of DEPTHS to below the next."""
        sums = np.add.reduceat(
            np.concatenate((self.time_at_ns, np.zeros(DEPTHS[-1] + 1, dtype=np.int64))), DEPTHS
        )
        return [float(sum_ns) / self.span_ns for sum_ns in sums]


def _periods(lengths: I64) -> Periods:
    if not lengths.size:
        return Periods(0, 0, None, None, None)
    p50, p99, longest = percentiles(lengths, (50.0, 99.0, 100.0))
    return Periods(int(lengths.size), int(lengths.sum()), p50, p99, longest)


class Activity:
    """Time at each depth, and idle periods, of steps that are added in order."""

    def __init__(self, start_ns: int, stop_ns: int) -> None:
        self.start_ns = start_ns
        self.span_ns = stop_ns - start_ns
        self.time_at = np.zeros(1, dtype=np.int64)
        self.idle_from: list[I64] = []
        self.idle_to: list[I64] = []
        self.since, self.depth = 0, 0  # the last step

    def add(self, moments: I64, depths: I64) -> None:
        """Add steps, their moments in ns after start_ns; time outside the recorded time is cut off."""
        edges = np.concatenate(([self.since], moments))
        np.clip(edges, 0, self.span_ns, out=edges)
        lengths = np.diff(edges)
        held = np.concatenate(([self.depth], depths[:-1]))
        # exact in integers: float64 weights would round sums above 2**53 ns only, which is 104 days
        part = np.bincount(held, lengths).astype(np.int64)
        if part.size > self.time_at.size:
            self.time_at = np.pad(self.time_at, (0, part.size - self.time_at.size))
        self.time_at[: part.size] += part
        empty = np.flatnonzero((held == 0) & (lengths > 0))
        self.idle_from.append(edges[empty])
        self.idle_to.append(edges[empty + 1])
        self.since, self.depth = int(edges[-1]), int(depths[-1])

    def utilization(self) -> Utilization:
        """The utilization, once all steps are added."""
        self.add(np.array([self.span_ns], dtype=np.int64), np.zeros(1, dtype=np.int64))
        begins, ends = np.concatenate(self.idle_from), np.concatenate(self.idle_to)
        if begins.size:
            apart = ends[:-1] < begins[1:]  # a request that took no time does not end an idle period
            begins, ends = begins[np.append(True, apart)], ends[np.append(apart, True)]
        between = np.concatenate((begins, [self.span_ns])) - np.concatenate(([0], ends))
        return Utilization(
            np.trim_zeros(self.time_at, "b"), _periods(between[between > 0]), _periods(ends - begins)
        )


def utilization_of(begin: I64, end: I64, start_ns: int, stop_ns: int) -> Utilization:
    """Depth of the intervals [begin, end) within [start, stop); begin and end: sorted."""
    activity = Activity(start_ns, stop_ns)
    for moments, depths in steps(begin, end, start_ns):
        activity.add(moments, depths)
    return activity.utilization()


def with_depth(block: Block, timeline: Timeline, stop_ns: int) -> tuple[Utilization, Depth]:
    """Utilization and depth of all requests as of one device, from the timeline's start to stop_ns."""
    begin, end = in_order(block.issue_ns, block.lasting), in_order(block.complete_ns, block.lasting)
    start_ns = int(timeline.edges_ns[0])
    activity, highest = Activity(start_ns, stop_ns), Highest(timeline)
    for moments, depths in steps(begin, end, start_ns):
        activity.add(moments, depths)
        highest.add(moments, depths)
    return activity.utilization(), depth_of(begin, end, timeline, highest)


def of_device(
    block: Block, start_ns: int, stop_ns: int, among: npt.NDArray[np.bool_] | None = None
) -> Utilization:
    """Utilization by the requests whose times are in order; among: only by those of this mask."""
    rows = block.lasting if among is None else block.lasting & among
    return utilization_of(
        in_order(block.issue_ns, rows), in_order(block.complete_ns, rows), start_ns, stop_ns
    )
