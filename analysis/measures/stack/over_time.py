# SPDX-License-Identifier: BSD-2-Clause
"""The disks below volumes over time, beside which the file system's own view is shown.

D2C of a disk's request is the disk alone; Q2C of a volume's bio includes all that is below the volume.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.measures.block import latency
from analysis.measures.block.latency import LatencySeries
from analysis.measures.block.throughput import OPS, tally
from analysis.measures.block.view import Views
from analysis.measures.common.timeline import F64, Timeline
from analysis.rundir.stack import Stack

NAME_LETTERS = 24


@dataclass(frozen=True)
class BelowVolumes:
    """Sums over all disks per time bin, at the end of the request."""

    volumes: list[str]  # that the file system uses, as people know them: vg/root
    mb_s: dict[str, dict[str, F64]]  # by OPS, then by class
    iops: dict[str, F64]  # by operation, of the operations that occur
    latency: dict[str, LatencySeries]  # by OPS: D2C

    @property
    def volume(self) -> str:
        """The volumes, in a few words."""
        return f"volume {self.volumes[0]}" if len(self.volumes) == 1 else f"{len(self.volumes)} volumes"

    @property
    def has_requests(self) -> bool:
        """Whether a disk was recorded; none is below a volume in memory (zram)."""
        return bool(self.iops)


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 3] + "..."


def measure_below(views: Views | None, stack: Stack, timeline: Timeline) -> BelowVolumes | None:
    """The disks below the volumes; None for a file system on bare disks."""
    if views is None or not views.is_stacked:
        return None
    block = views.disks.block
    counts = tally(block, views.disks.kinds, timeline)
    return BelowVolumes(
        volumes=[_cut(node.short_label) for node in stack.tops] or ["of the file system"],
        mb_s={op: counts.device_mb_s(op) for op in OPS},
        iops={op: counts.iops(op) for op in block.op.present()},
        latency={op: latency.series(block, block.op.is_(op), timeline, "D2C") for op in OPS},
    )
