# SPDX-License-Identifier: BSD-2-Clause
"""Plugs: how many requests a thread holds back until it unplugs, and for how long, by device.

A thread that plugs keeps its requests in a list until it unplugs or sleeps (blk_start_plug).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.statistics import percentiles
from analysis.tables.plug import Plug

DEFINITION = (
    "unplug: a thread submits the requests that it held back, at the end of its batch (expl.: explicit) or"
    " when it goes to sleep. held: time from the first held-back request to the unplug."
)
PERCENTS = (50.0, 99.0, 100.0)
MOST_DEVICES = 256  # more are not kept apart in a trace


@dataclass(frozen=True)
class PlugRow:
    """One device. depth: requests handed over at once; held: of the unplugs whose start is known."""

    dev: int
    unplugs: int
    requests: int
    by_schedule: int
    depth_at: list[int]  # at PERCENTS
    held_mean_ns: float | None
    held_at_ns: list[int] | None

    @property
    def mean_depth(self) -> float:
        """Requests an unplug."""
        return self.requests / self.unplugs


def by_device(plug: Plug) -> list[PlugRow]:
    """In the order of device numbers."""
    rows = []
    for number in np.unique(plug.dev)[:MOST_DEVICES]:
        on_device = plug.dev == number
        depth = plug.depth[on_device]
        has_start = on_device & (plug.plug_ns > 0) & (plug.plug_ns <= plug.unplug_ns)
        held = (plug.unplug_ns - plug.plug_ns)[has_start]
        rows.append(
            PlugRow(
                dev=int(number),
                unplugs=int(depth.size),
                requests=int(depth.sum()),
                by_schedule=int(plug.by_schedule[on_device].sum()),
                depth_at=percentiles(depth, PERCENTS),
                held_mean_ns=float(held.mean()) if held.size else None,
                held_at_ns=percentiles(held, PERCENTS) if held.size else None,
            )
        )
    return rows
