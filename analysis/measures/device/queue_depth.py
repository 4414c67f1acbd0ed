# SPDX-License-Identifier: BSD-2-Clause
"""Queue depth: requests at the device, and requests queued, per time bin.

At the device: issued and not completed. Queued: queued and not completed, whether issued or not. Mean: over
time, weighted by how long each depth lasted. Maximum: the highest moment in the bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.device.depth_steps import in_order, steps
from analysis.tables.block import Block
from analysis.tables.store import I64

DEFINITION = (
    "depth: requests issued and not completed (queued: queued and not completed);"
    " mean over time in the bin, and the highest moment."
)


@dataclass(frozen=True)
class Depth:
    """Per time bin: mean and highest depth."""

    mean: F64
    highest: F64


def _at(times: I64, edges: I64, zero: int) -> tuple[I64, F64]:
    """At each edge (after zero): how many sorted times are not after it, and the sum of edge - time there."""
    before = np.searchsorted(times, edges + zero, side="right")
    sums = np.zeros(edges.size)
    total = 0.0
    for i, (first, last) in enumerate(pairwise((0, *(int(n) for n in before)))):
        total += float((times[first:last] - zero).sum(dtype=np.float64))
        sums[i] = total
    return before, before * edges.astype(np.float64) - sums


class Highest:
    """The highest depth of each bin, of steps that are added in order."""

    def __init__(self, timeline: Timeline) -> None:
        self.inner = timeline.edges_ns[1:-1] - timeline.edges_ns[0]
        self.depths = np.zeros(timeline.bins, dtype=np.int64)

    def add(self, moments: I64, depths: I64) -> None:
        """Add steps; steps outside the timeline count in its first or last bin."""
        first = np.concatenate(([0], np.searchsorted(moments, self.inner)))
        bins = np.flatnonzero(np.diff(first, append=moments.size))
        self.depths[bins] = np.maximum(self.depths[bins], np.maximum.reduceat(depths, first[bins]))


def depth_of(begin: I64, end: I64, timeline: Timeline, highest: Highest) -> Depth:
    """Depth of sorted begins and ends, of which all steps were added to `highest`."""
    mean, at_edges = _mean(begin, end, timeline)
    # between two steps the depth is that of the step before: a bin's first is from before it
    return Depth(mean, np.maximum(highest.depths, np.maximum(at_edges[:-1], 0)).astype(np.float64))


def _mean(begin: I64, end: I64, timeline: Timeline) -> tuple[F64, I64]:
    """The mean depth of each bin, and the depth at each edge."""
    zero = int(timeline.edges_ns[0])
    edges = timeline.edges_ns - zero
    begun, begin_area = _at(begin, edges, zero)
    ended, end_area = _at(end, edges, zero)
    return np.maximum(np.diff(begin_area - end_area), 0.0) / np.diff(edges), begun - ended


def mean_of(begin: I64, end: I64, timeline: Timeline) -> F64:
    """The mean of depth() alone, without a pass over all steps for the highest moments."""
    return _mean(begin, end, timeline)[0]


def depth(begin: I64, end: I64, timeline: Timeline) -> Depth:
    """Depth of intervals over the timeline; begin and end: sorted."""
    highest = Highest(timeline)
    for moments, depths in steps(begin, end, int(timeline.edges_ns[0])):
        highest.add(moments, depths)
    return depth_of(begin, end, timeline, highest)


def at_device(block: Block, timeline: Timeline, among: npt.NDArray[np.bool_] | None = None) -> Depth:
    """Requests issued and not completed; among: only those of this mask."""
    rows = block.lasting if among is None else block.lasting & among
    return depth(in_order(block.issue_ns, rows), in_order(block.complete_ns, rows), timeline)


def in_all(block: Block, timeline: Timeline) -> Depth:
    """Requests queued and not completed."""
    return depth(
        in_order(block.queue_ns, block.lasting), in_order(block.complete_ns, block.lasting), timeline
    )
