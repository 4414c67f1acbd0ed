# SPDX-License-Identifier: BSD-2-Clause
"""How often and how far does the head have to move?

Seek (seekwatcher's rule): in issue order on one device, a read or write that starts more than 128 sectors
from the end of the one before. Distance: start minus previous end, signed, in 512 B sectors. Sequential:
starts exactly there. What is neither (within 128 sectors) is near. Flushes and discards move no data: they
are no seeks and do not move the head. The first request of a device has no distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.statistics import percentiles
from analysis.measures.timeline import F64, Timeline
from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.store import I64

NEAR_SECTORS = 128
DEFINITION = (
    "seek: in issue order on one device, a read or write that starts more than 128"
    " sectors (64 KiB) from the end of the one before; sequential: exactly at that end;"
    " distance: start minus that end, signed. Flushes and discards take no part."
)
SIGNED_PERCENTS = (1.0, 10.0, 50.0, 90.0, 99.0)
ABSOLUTE_PERCENTS = (50.0, 90.0, 99.0, 100.0)


@dataclass(frozen=True)
class Moves:
    """One entry a read or write in issue order (per device): its row, its distance, has it a predecessor."""

    rows: I64
    distance_sectors: I64
    has_previous: npt.NDArray[np.bool_]

    @property
    def is_seek(self) -> npt.NDArray[np.bool_]:
        """Which moves are seeks."""
        return np.asarray(self.has_previous & (np.abs(self.distance_sectors) > NEAR_SECTORS))

    @property
    def is_sequential(self) -> npt.NDArray[np.bool_]:
        """Which moves are none at all."""
        return np.asarray(self.has_previous & (self.distance_sectors == 0))


@dataclass(frozen=True)
class SeekSummary:
    """Counts over a set of requests; distances in bytes, over the seeks only."""

    requests: int
    with_previous: int
    seeks: int
    sequential: int
    near: int
    signed_bytes: list[int]  # at SIGNED_PERCENTS, empty without a seek
    absolute_bytes: list[int]  # at ABSOLUTE_PERCENTS

    @property
    def sequential_share(self) -> float | None:
        """Share of the requests with a predecessor; None without any."""
        return self.sequential / self.with_previous if self.with_previous else None


def length_sectors(block: Block, rows: I64) -> I64:
    """A request's length, rounded up: a device may have an odd tail."""
    return np.asarray((block.bytes[rows] + (SECTOR_BYTES - 1)) // SECTOR_BYTES)


def moves(block: Block, in_queue_order: bool = False) -> Moves:
    """Distances of all reads and writes, in issue order on each device, or as if issued as queued."""
    rows = np.flatnonzero(block.moves_data)
    order = block.queue_ns if in_queue_order else block.issue_ns
    rows = rows[np.argsort(order[rows], kind="stable")]
    dev = block.dev[rows]
    if dev.size and (dev != dev[0]).any():
        by_device = np.argsort(dev, kind="stable")
        rows, dev = rows[by_device], dev[by_device]
    start = block.sector[rows]
    end = start + length_sectors(block, rows)
    distance = np.zeros(rows.size, dtype=np.int64)
    distance[1:] = start[1:] - end[:-1]
    has_previous = np.zeros(rows.size, dtype=np.bool_)
    has_previous[1:] = dev[1:] == dev[:-1]
    distance[~has_previous] = 0
    return Moves(rows, distance, has_previous)


def summary(found: Moves, among: npt.NDArray[np.bool_] | None = None) -> SeekSummary:
    """Count the moves, or those `among` (a mask over found.rows)."""
    chosen = np.ones(found.rows.size, dtype=np.bool_) if among is None else among
    seek = found.is_seek & chosen
    sequential = int((found.is_sequential & chosen).sum())
    with_previous = int((found.has_previous & chosen).sum())
    distances = found.distance_sectors[seek] * SECTOR_BYTES
    seeks = int(distances.size)
    return SeekSummary(
        requests=int(chosen.sum()),
        with_previous=with_previous,
        seeks=seeks,
        sequential=sequential,
        near=with_previous - seeks - sequential,
        signed_bytes=percentiles(distances, SIGNED_PERCENTS) if seeks else [],
        absolute_bytes=percentiles(np.abs(distances), ABSOLUTE_PERCENTS) if seeks else [],
    )


def seek_times(block: Block, found: Moves) -> I64:
    """Issue time of every seek."""
    return block.issue_ns[found.rows[found.is_seek]]


def seeks_per_s(block: Block, found: Moves, timeline: Timeline) -> F64:
    """Seeks divided by the real length of each bin."""
    return timeline.rates(seek_times(block, found))
