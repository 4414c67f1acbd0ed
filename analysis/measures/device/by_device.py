# SPDX-License-Identifier: BSD-2-Clause
"""Requests, seeks, depth and latency by device, for a run on several devices (an external journal, RAID)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.block import latency, seeks
from analysis.measures.common.timeline import Timeline
from analysis.measures.device import queue_depth
from analysis.rundir.devices import Device
from analysis.tables.block import Block

DEFINITION = "seeks, depth (at the device) and D2C (issue to completion) of each device's own requests."


@dataclass(frozen=True)
class DeviceRow:
    """Sums over the requests of one device."""

    label: str
    requests: int
    read_bytes: int
    write_bytes: int
    seeks: seeks.SeekSummary
    depth_mean: float
    depth_highest: int
    device_latency: latency.LatencyRow | None  # D2C


def by_device(
    block: Block, distances: seeks.Distances, devices: list[Device], timeline: Timeline
) -> list[DeviceRow]:
    """One row per device, in the order given."""
    rows = []
    for device in devices:
        on_device = block.dev == device.number
        requests = int(np.count_nonzero(on_device))
        depth = queue_depth.at_device(block, timeline, on_device)
        stages = latency.stages(
            block, on_device.view(np.int8), [block.rows - requests, requests], ["D2C"]
        ).of([1], only="D2C")
        rows.append(
            DeviceRow(
                label=device.label,
                requests=int(on_device.sum()),
                read_bytes=int(block.bytes[on_device & block.op.is_("read")].sum()),
                write_bytes=int(block.bytes[on_device & block.op.is_("write")].sum()),
                seeks=seeks.summary(distances, on_device[distances.rows]),
                depth_mean=float(np.average(depth.mean, weights=timeline.lengths_s)),
                depth_highest=int(depth.highest.max()),
                device_latency=stages[0] if stages else None,
            )
        )
    return rows
