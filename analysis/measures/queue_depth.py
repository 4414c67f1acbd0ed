# SPDX-License-Identifier: BSD-2-Clause
"""How many requests are at the device, and how many are in the kernel at all, at a time?

Depth at the device counts requests issued and not completed; depth in all counts those queued and not
completed. Mean: over time, weighted by how long each depth lasted. Maximum: the highest moment in the bin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.timeline import F64, Timeline
from analysis.tables.block import Block
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


def _integral(times: I64, edges: I64) -> F64:
    """For each edge e: the sum over times t <= e of (e - t), in ns. Times sorted, relative to edges[0]."""
    sums = np.concatenate(([0.0], np.cumsum(times, dtype=np.float64)))
    before = np.searchsorted(times, edges, side="right")
    return np.asarray(before * edges.astype(np.float64) - sums[before], dtype=np.float64)


def depth(begin_ns: I64, end_ns: I64, timeline: Timeline) -> Depth:
    """Depth of intervals [begin, end) over the timeline."""
    zero = int(timeline.edges_ns[0])
    edges = timeline.edges_ns - zero
    begin, end = np.sort(begin_ns - zero), np.sort(end_ns - zero)
    area = np.diff(_integral(begin, edges) - _integral(end, edges))
    mean = np.maximum(area, 0.0) / np.diff(edges)
    highest = (
        np.searchsorted(begin, edges[:-1], side="right") - np.searchsorted(end, edges[:-1], side="right")
    ).astype(np.float64)
    if begin.size:
        # the depth rises only at a begin: the highest is at one of them, or at the bin's start
        at_begin = np.arange(1, begin.size + 1) - np.searchsorted(end, begin, side="right")
        bins = timeline.index(begin + zero)
        first = np.flatnonzero(np.diff(bins, prepend=-1))
        highest[bins[first]] = np.maximum(highest[bins[first]], np.maximum.reduceat(at_begin, first))
    return Depth(mean, np.maximum(highest, 0.0))


def at_device(block: Block, timeline: Timeline, among: npt.NDArray[np.bool_] | None = None) -> Depth:
    """Requests issued and not completed, or those `among` them."""
    rows = block.timed if among is None else block.timed & among
    return depth(block.issue_ns[rows], block.complete_ns[rows], timeline)


def in_all(block: Block, timeline: Timeline) -> Depth:
    """Requests queued and not completed."""
    return depth(block.queue_ns[block.timed], block.complete_ns[block.timed], timeline)
