# SPDX-License-Identifier: BSD-2-Clause
"""Results of the devices: their own counters, utilization, queue depth, and one row a device."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.measures.block.seeks import Distances
from analysis.measures.block.times import BlockTimes
from analysis.measures.common.timeline import Timeline
from analysis.measures.common.window import Window
from analysis.measures.device import queue_depth, utilization
from analysis.measures.device.by_device import DeviceRow, by_device
from analysis.measures.device.by_time import DeviceSeries, by_time
from analysis.measures.device.own_counters import OwnCounter
from analysis.rundir.devices import with_requests
from analysis.rundir.run import Run
from analysis.tables.block import Block


@dataclass(frozen=True)
class DepthResults:
    """Queue depth per time bin."""

    at_device: queue_depth.Depth  # issued and not completed
    queued: queue_depth.Depth  # queued and not completed


@dataclass(frozen=True)
class DeviceResults:
    """Without a block table there are counters only."""

    counters: list[OwnCounter]  # the first disk's alone in older runs
    rows: list[DeviceRow] = field(default_factory=list)  # one a device; none if one device had all requests
    series: list[DeviceSeries] = field(default_factory=list)  # as rows
    depth: DepthResults | None = None
    utilization: dict[int, utilization.Utilization] = field(default_factory=dict)  # by device number
    labels: dict[int, str] = field(default_factory=dict)  # by device number


def measure_devices(
    run: Run,
    block: Block,
    distances: Distances,
    counters: list[OwnCounter],
    times: BlockTimes,
    depth_queued: queue_depth.Depth,
    timeline: Timeline,
    window: Window,
) -> DeviceResults:
    """Depth is of all devices together; rows and utilization are of each device that had requests."""
    devices = with_requests(run, block)
    is_one = len(devices) == 1
    return DeviceResults(
        counters=counters,
        rows=by_device(block, distances, devices, timeline) if len(devices) > 1 else [],
        series=by_time(block, distances, devices, timeline) if len(devices) > 1 else [],
        depth=DepthResults(times.depth_at_device, depth_queued),
        utilization={
            device.number: times.utilization
            if is_one
            else utilization.of_device(block, window.start_ns, window.end_ns, block.dev == device.number)
            for device in devices
        },
        labels={device.number: device.label for device in devices},
    )
