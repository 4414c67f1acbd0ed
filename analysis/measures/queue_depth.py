# SPDX-License-Identifier: BSD-2-Clause
"""How many requests are at the device, and how many are in the kernel at all, at a time?

Depth at the device counts requests issued and not completed; depth in all counts those queued and not
completed. Mean: over time, weighted by how long each depth lasted. Maximum: the highest moment in the bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from analysis.measures.timeline import F64, Timeline
from analysis.tables.block import Block, parts
from analysis.tables.store import I64

DEFINITION = (
    "depth: requests issued and not completed (in all: queued and not completed);"
    " mean over time in the bin, and the highest moment."
)


@dataclass(frozen=True)
class Depth:
    """Per time bin: mean and highest depth."""

    mean: F64
    highest: F64


def _at(times: I64, edges: I64) -> tuple[I64, F64]:
    """At each edge: how many sorted times are not after it, and the sum of (edge - time) over those."""
    before = np.searchsorted(times, edges, side="right")
    sums = np.zeros(edges.size)
    total = 0.0
    for i, (first, last) in enumerate(pairwise((0, *(int(n) for n in before)))):
        total += float(times[first:last].sum(dtype=np.float64))
        sums[i] = total
    return before, before * edges.astype(np.float64) - sums


def depth(begin_ns: I64, end_ns: I64, timeline: Timeline) -> Depth:
    """Depth of intervals [begin, end) over the timeline. Sorts its arguments in place."""
    zero = int(timeline.edges_ns[0])
    edges = timeline.edges_ns - zero
    begin, end = begin_ns, end_ns
    for times in (begin, end):
        times -= zero
        times.sort()
    begun, begin_area = _at(begin, edges)
    ended, end_area = _at(end, edges)
    mean = np.maximum(np.diff(begin_area - end_area), 0.0) / np.diff(edges)
    highest = (begun - ended)[:-1].astype(np.float64)
    # the depth rises only at a begin: the highest is at one of them, or at the bin's start
    for part in parts(begin.size):
        at = begin[part]
        first, last = np.searchsorted(end, at[[0, -1]], side="right")
        gone = first + np.searchsorted(end[first:last], at, side="right")
        depths = np.arange(part.start + 1, part.stop + 1) - gone
        bins = timeline.index(at + zero)
        changes = np.flatnonzero(np.diff(bins, prepend=-1))
        here = bins[changes]
        highest[here] = np.maximum(highest[here], np.maximum.reduceat(depths, changes))
    return Depth(mean, np.maximum(highest, 0.0))


def at_device(block: Block, timeline: Timeline, among: npt.NDArray[np.bool_] | None = None) -> Depth:
    """Requests issued and not completed, or those `among` them."""
    rows = block.timed if among is None else block.timed & among
    return depth(block.issue_ns[rows], block.complete_ns[rows], timeline)


def in_all(block: Block, timeline: Timeline) -> Depth:
    """Requests queued and not completed."""
    return depth(block.queue_ns[block.timed], block.complete_ns[block.timed], timeline)
