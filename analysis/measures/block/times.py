# SPDX-License-Identifier: BSD-2-Clause
"""Measures of the requests' times: latency, stages, queue depth, utilization.

They run in a thread of their own, while results.py measures the requests' sectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block import distribution, latency, stages
from analysis.measures.block.kinds import Kinds
from analysis.measures.block.throughput import OPS
from analysis.measures.common.timeline import Timeline
from analysis.measures.device import queue_depth, utilization
from analysis.tables.block import Block


@dataclass(frozen=True)
class LatencyResults:
    """Latency percentiles and series, and the number of requests left out of them."""

    rows: dict[tuple[str, str], list[latency.LatencyRow]]  # by operation and class ("": all classes)
    series: dict[str, latency.LatencySeries]  # Q2C per time bin, by OPS
    untimed: int  # requests whose end was not seen, or whose times are not in order
    bounded: int  # of the untimed: requests of which a latest end is known
    bounded_ns: int  # from their issue to that latest end, together


@dataclass(frozen=True)
class BlockTimes:
    """Results of the thread. Quantiles: for distributions.png."""

    latency: LatencyResults
    latency_quantiles: dict[str, distribution.Quantiles]  # by operation
    sizes: dict[str, distribution.Quantiles]  # by class
    stages: stages.StageResults
    depth_at_device: queue_depth.Depth
    depth_queued: queue_depth.Depth
    utilization: utilization.Utilization  # as if all requests went to one device


def measure_times(block: Block, kinds: Kinds, timeline: Timeline, stop_ns: int) -> BlockTimes:
    """Measure a run's requests by their times. stop_ns: where utilization ends."""
    # the stages first: they need most memory, and the other thread needs most later
    stage_results = stages.measure_stages(block)
    rows, quantiles = _percentiles(block, kinds, block.op.present(), block.class_.present())
    sizes = distribution.by_class(distribution.sizes(block, kinds), kinds)
    busy, depth = utilization.with_depth(block, timeline, stop_ns)
    bounded, bounded_ns = _bounded(block)
    return BlockTimes(
        latency=LatencyResults(
            rows=rows,
            series={op: latency.series(block, block.op.is_(op), timeline) for op in OPS},
            untimed=int((~block.timed).sum()),
            bounded=bounded,
            bounded_ns=bounded_ns,
        ),
        latency_quantiles=quantiles,
        sizes=sizes,
        stages=stage_results,
        depth_at_device=depth,
        depth_queued=queue_depth.in_all(block, timeline),
        utilization=busy,
    )


def _percentiles(
    block: Block, kinds: Kinds, ops: Sequence[str], classes: Sequence[str]
) -> tuple[dict[tuple[str, str], list[latency.LatencyRow]], dict[str, distribution.Quantiles]]:
    """Percentiles of each stage by operation, of Q2C by class too; and Q2C's quantiles by operation."""
    rows: dict[tuple[str, str], list[latency.LatencyRow]] = {}
    quantiles: dict[str, distribution.Quantiles] = {}
    for stage in latency.STAGES:
        # one stage in memory at a time
        sorted_stage = latency.stages(block, kinds.codes, kinds.counts, [stage])
        for op in ops:
            rows.setdefault((op, ""), []).extend(sorted_stage.of(kinds.of(op)))
            classes_of_op = [class_ for class_ in classes if kinds.of(op, class_)]
            for class_ in classes_of_op if len(classes_of_op) > 1 else []:
                row = sorted_stage.of(kinds.of(op, class_)) if stage == "Q2C" else []
                rows.setdefault((op, class_), []).extend(row)
        if stage == "Q2C":
            quantiles = distribution.by_op(sorted_stage.runs[stage], kinds)
        del sorted_stage
    return rows, quantiles


def _bounded(block: Block) -> tuple[int, int]:
    """Number of requests with only a latest end, and the total ns from their issue to that end."""
    rows = np.flatnonzero(block.lasting & ~block.timed)
    return int(rows.size), int((block.complete_ns[rows] - block.issue_ns[rows]).sum())
