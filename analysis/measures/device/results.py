# SPDX-License-Identifier: BSD-2-Clause
"""Results of the devices: their own counters, utilization, queue depth, and one row a device."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.measures.app import memory
from analysis.measures.block.seeks import Distances
from analysis.measures.block.times import BlockTimes
from analysis.measures.common.timeline import Timeline
from analysis.measures.common.window import Window
from analysis.measures.device import queue_depth, utilization
from analysis.measures.device.by_device import DeviceRow, by_device, disk_bytes
from analysis.measures.device.by_time import DeviceSeries, by_time
from analysis.rundir.devices import counted, with_requests
from analysis.rundir.run import Run
from analysis.tables.block import Block
from analysis.tables.counter import Counter

DISK_COUNTERS = (
    "read_bytes",
    "write_bytes",
    "read_requests",
    "write_requests",
    "discard_bytes",
    "flush_requests",
)


@dataclass(frozen=True)
class DiskCounters:
    """The kernel's own counters of one device (/sys/block/*/stat), and the trace's sums to compare with."""

    increase: dict[str, int | None]  # by DISK_COUNTERS, over the recorded time; None: fewer than two samples
    traced_bytes: dict[str, int] | None  # read and write; None: not known which device the counters count


@dataclass(frozen=True)
class DepthResults:
    """Queue depth per time bin."""

    at_device: queue_depth.Depth  # issued and not completed
    queued: queue_depth.Depth  # queued and not completed


@dataclass(frozen=True)
class DeviceResults:
    """Without a block table there are counters only."""

    counters: DiskCounters
    rows: list[DeviceRow] = field(default_factory=list)  # one a device; none if one device had all requests
    series: list[DeviceSeries] = field(default_factory=list)  # as rows
    depth: DepthResults | None = None
    utilization: dict[int, utilization.Utilization] = field(default_factory=dict)  # by device number
    labels: dict[int, str] = field(default_factory=dict)  # by device number


def measure_counters(run: Run, block: Block | None, counter: Counter | None, window: Window) -> DiskCounters:
    """The counters' increase, and the bytes of the requests that ended meanwhile."""
    increase: dict[str, int | None] = {}
    start_ns, end_ns = window.start_ns, window.end_ns
    number = counted(run, with_requests(run, block)) if block is not None else None
    if counter is not None:
        dev = number if number is not None and counter.dev.any() else 0
        increase = {name: memory.increase(counter, f"disk.{name}", dev) for name in DISK_COUNTERS}
        if len(samples_ns := counter.series("disk.write_bytes", dev)[0]):
            start_ns, end_ns = int(samples_ns[0]), int(samples_ns[-1])
    if block is None or number is None:
        return DiskCounters(increase, None)
    return DiskCounters(increase, disk_bytes(block, number, start_ns, end_ns))


def measure_devices(
    run: Run,
    block: Block,
    distances: Distances,
    counters: DiskCounters,
    times: BlockTimes,
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
        depth=DepthResults(times.depth_at_device, times.depth_queued),
        utilization={
            device.number: times.utilization
            if is_one
            else utilization.of_device(block, window.start_ns, window.end_ns, block.dev == device.number)
            for device in devices
        },
        labels={device.number: device.label for device in devices},
    )
