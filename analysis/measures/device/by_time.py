# SPDX-License-Identifier: BSD-2-Clause
"""Queue depth, busy time and seeks of each device per time bin, for a run on several devices.

Busy: at least one request is issued and not completed, in percent of the bin. Equal devices differ here where
one of them is slower, or gets more work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block.seeks import Distances
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.device import queue_depth
from analysis.measures.device.depth_steps import in_order
from analysis.rundir.devices import Device
from analysis.tables.block import Block
from analysis.tables.store import I64

DEFINITION = "busy: at least one request of the disk is issued and not completed, in percent of the time."


@dataclass(frozen=True)
class DeviceSeries:
    """One device over time, a value per bin."""

    name: str
    depth: F64  # at the device, mean
    busy_pct: F64
    seeks_per_s: F64


def by_time(
    block: Block, distances: Distances, devices: Sequence[Device], timeline: Timeline
) -> list[DeviceSeries]:
    """The series of each device, in the order given."""
    dev_of_distance = block.dev[distances.rows]
    series = []
    for device in devices:
        rows = block.lasting & (block.dev == device.number)
        begin, end = in_order(block.issue_ns, rows), in_order(block.complete_ns, rows)
        is_seek = distances.is_seek & (dev_of_distance == device.number)
        series.append(
            DeviceSeries(
                name=device.name,
                depth=queue_depth.mean_of(begin, end, timeline),
                busy_pct=100 * queue_depth.mean_of(*busy_periods(begin, end), timeline),
                seeks_per_s=timeline.rates(block.issue_ns[distances.rows[is_seek]]),
            )
        )
    return series


def busy_periods(begin: I64, end: I64) -> tuple[I64, I64]:
    """Begins and ends of the periods in which at least one interval [begin, end) is open.

    begin and end: sorted, each apart. The k-th period ends where as many intervals have ended as have begun.
    """
    if not begin.size:
        return begin, end
    is_first = np.append(True, begin[1:] > end[:-1])  # all that began before have ended
    return begin[is_first], end[np.append(is_first[1:], True)]
