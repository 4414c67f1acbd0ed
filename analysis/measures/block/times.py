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
from analysis.measures.block.view import Views
from analysis.measures.common.timeline import Timeline
from analysis.measures.device import queue_depth, utilization
from analysis.tables.block import Block


@dataclass(frozen=True)
class LatencyResults:
    """Latency percentiles and series, and the number of requests left out of them.

    Above volumes Q2C is of the bios to the volumes, Q2D and D2C are of the disks' requests.
    """

    rows: dict[tuple[str, str], list[latency.LatencyRow]]  # by operation and class ("": all classes)
    series: dict[str, latency.LatencySeries]  # Q2C per time bin, by OPS
    untimed: int  # requests whose end was not seen, or whose times are not in order
    bounded: int  # of the untimed: requests of which a latest end is known
    bounded_ns: int  # from their issue to that latest end, together
    untimed_bios: int = 0  # above volumes: the same of the bios, whose end was not seen


@dataclass(frozen=True)
class BlockTimes:
    """Results of the thread. Quantiles: for distributions.png."""

    latency: LatencyResults
    latency_quantiles: dict[str, distribution.Quantiles]  # by operation
    sizes: dict[str, distribution.Quantiles]  # by class
    stages: stages.StageResults
    depth_at_device: queue_depth.Depth
    utilization: utilization.Utilization  # as if all requests went to one device


def measure_times(views: Views, timeline: Timeline, stop_ns: int) -> BlockTimes:
    """Measure a run's requests by their times. stop_ns: where utilization ends."""
    block, kinds, top = views.disks.block, views.disks.kinds, views.top.block
    # the stages first: they need most memory, and the other thread needs most later
    stage_results = stages.measure_stages(block)
    if views.is_stacked:
        rows, quantiles = _percentiles_of_both(views)
    else:
        rows, quantiles = _percentiles(block, kinds, latency.STAGES)
    sizes = distribution.by_class(distribution.sizes(block, kinds), kinds)
    busy, depth = utilization.with_depth(block, timeline, stop_ns)
    bounded, bounded_ns = _bounded(block)
    return BlockTimes(
        latency=LatencyResults(
            rows=rows,
            series={op: latency.series(top, top.op.is_(op), timeline) for op in OPS},
            untimed=int((~block.timed).sum()),
            bounded=bounded,
            bounded_ns=bounded_ns,
            untimed_bios=int((~top.timed).sum()) if views.is_stacked else 0,
        ),
        latency_quantiles=quantiles,
        sizes=sizes,
        stages=stage_results,
        depth_at_device=depth,
        utilization=busy,
    )


Rows = dict[tuple[str, str], list[latency.LatencyRow]]


def _percentiles_of_both(views: Views) -> tuple[Rows, dict[str, distribution.Quantiles]]:
    """Q2D and D2C of the disks' requests, Q2C of what the file system asked for."""
    of_disks, _ = _percentiles(views.disks.block, views.disks.kinds, ("Q2D", "D2C"))
    of_top, quantiles = _percentiles(views.top.block, views.top.kinds, ("Q2C",))
    rows: Rows = {key: list(of_disks.get(key, [])) for key in (*of_top, *of_disks)}
    for key, found in of_top.items():
        rows[key] += found
    return {key: rows[key] for key in rows if rows[key]}, quantiles


def _percentiles(
    block: Block, kinds: Kinds, stages_wanted: Sequence[str]
) -> tuple[Rows, dict[str, distribution.Quantiles]]:
    """Percentiles of each stage by operation, of Q2C by class too; and Q2C's quantiles by operation."""
    ops, classes = block.op.present(), block.class_.present()
    rows: Rows = {}
    quantiles: dict[str, distribution.Quantiles] = {}
    for stage in stages_wanted:
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
