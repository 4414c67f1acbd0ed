# SPDX-License-Identifier: BSD-2-Clause
"""What the times of requests tell: latency, depth, life. A thread does it beside what their places tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.measures.app import throughput
from analysis.measures.block import distribution, latency
from analysis.measures.block import stages as request_life
from analysis.measures.block.kinds import Kinds
from analysis.measures.common.timeline import Timeline
from analysis.measures.device import queue_depth, utilization
from analysis.tables.block import Block


@dataclass(frozen=True)
class BlockTimes:
    """latency, size: for the picture of distributions; at_work: of all requests, as if on one device."""

    latency_rows: dict[tuple[str, str], list[latency.LatencyRow]]  # by op and class ("" = all)
    latency_series: dict[str, latency.LatencySeries]
    latency: dict[str, distribution.Quantiles]  # by op
    size: dict[str, distribution.Quantiles]  # by class
    depth_device: queue_depth.Depth
    depth_all: queue_depth.Depth
    at_work: utilization.Busy
    life: request_life.Life


def measure_times(
    block: Block, kinds: Kinds, ops: Sequence[str], classes: Sequence[str], timeline: Timeline, stop_ns: int
) -> BlockTimes:
    """ops, classes: those that occur, in the order of their rows; from the timeline's start to the stop."""
    life = request_life.measure_life(block)  # first: it needs most memory, what is beside it does later
    rows: dict[tuple[str, str], list[latency.LatencyRow]] = {}
    by_op: dict[str, distribution.Quantiles] = {}
    for stage in latency.STAGES:
        # one stage in memory at a time
        stages = latency.stages(block, kinds.codes, kinds.counts, [stage])
        for op in ops:
            rows.setdefault((op, ""), []).extend(stages.of(kinds.of(op)))
            of_op = [class_ for class_ in classes if kinds.of(op, class_)]
            for class_ in of_op if len(of_op) > 1 else []:
                found = stages.of(kinds.of(op, class_)) if stage == "Q2C" else []
                rows.setdefault((op, class_), []).extend(found)
        if stage == "Q2C":
            by_op = distribution.by_op(stages.runs[stage], kinds)
        del stages
    size = distribution.by_class(distribution.sizes(block, kinds), kinds)
    at_work, depth_device = utilization.with_depth(block, timeline, stop_ns)
    return BlockTimes(
        latency_rows=rows,
        latency_series={op: latency.series(block, block.op.is_(op), timeline) for op in throughput.OPS},
        latency=by_op,
        size=size,
        depth_device=depth_device,
        depth_all=queue_depth.in_all(block, timeline),
        at_work=at_work,
        life=life,
    )
