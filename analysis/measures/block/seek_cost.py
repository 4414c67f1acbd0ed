# SPDX-License-Identifier: BSD-2-Clause
"""What would these requests cost on a spinning disk, and what did their order save?

A model, not a measurement: one request at a time, in the order given, on a disk without cache, read-ahead or
reordering of its own. The disk: 7200 rpm; moving over the share d of it takes 0.8 + 9.833 sqrt(d) + 7.367 d
ms, which is 0.8 ms track to track, 8.5 ms as the mean between two random places and 18 ms from edge to edge;
74 MB/s at its beginning, falling evenly to 40 MB/s at its end. 250 GB, or the device's size if that is
larger, the device lying at its beginning. A sequential request costs its transfer; one that starts up to 128
sectors ahead waits for the gap to pass by; one up to 128 sectors back waits for the rest of a revolution; a
seek costs its movement and, on average, half a revolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.measures.block.seeks import NEAR_SECTORS, iter_distances
from analysis.measures.common.timeline import F64
from analysis.tables.block import SECTOR_BYTES, Block, parts
from analysis.tables.store import Ints

REVOLUTION_MS = 60_000 / 7200
TRACK_MS, ROOT_MS, LINEAR_MS = 0.8, 59 / 6, 221 / 30  # 0.8/8.5/18 ms; the mean of sqrt(d) is 8/15, of d 1/3
OUTER_BYTES_S, INNER_BYTES_S = 74e6, 40e6
LEAST_BYTES = 250 * 10**9
DEFINITION = (
    "MODEL, not measured: the same requests one after another on a disk of 7200 rpm without cache or"
    " reordering of its own, of 250 GB (or the device's size if larger), the device at its outer edge. A seek"
    " over the share d of the disk: 0.8 + 9.833 sqrt(d) + 7.367 d ms (track to track 0.8, mean of random"
    " places 8.5, full 18), and half a revolution (4.17 ms). Within 64 KiB: ahead, the gap's time; back, the"
    " rest of a revolution. Transfer: 74 MB/s outside to 40 inside."
)


@dataclass(frozen=True)
class Cost:
    """Seeks in one order of the requests, and the model's seconds."""

    seeks: int
    position_s: float  # moving and waiting for the right angle
    transfer_s: float


@dataclass(frozen=True)
class OrderRow:
    """One device's requests, as issued and as queued."""

    dev: int
    requests: int
    issued: Cost
    queued: Cost

    @property
    def saved_seeks(self) -> int:
        """Seeks that issuing in another order than queued avoided; negative: it made more."""
        return self.queued.seeks - self.issued.seeks

    @property
    def saved_s(self) -> float:
        """The same in the model's time."""
        return self.queued.position_s - self.issued.position_s


def seek_ms(share: F64) -> F64:
    """Time to move over a share (0..1) of the disk."""
    return np.asarray(TRACK_MS + ROOT_MS * np.sqrt(share) + LINEAR_MS * share)


def position_ms(distance_sectors: F64, disk_bytes: int) -> F64:
    """Time until the head is over the first sector, by the distance from the last request's end."""
    size = np.abs(distance_sectors) * SECTOR_BYTES
    times = seek_ms(np.minimum(size / disk_bytes, 1.0)) + REVOLUTION_MS / 2
    near = np.flatnonzero(size <= NEAR_SECTORS * SECTOR_BYTES)
    pass_by = size[near] / OUTER_BYTES_S * 1e3
    times[near] = np.where(distance_sectors[near] >= 0, pass_by, np.maximum(REVOLUTION_MS - pass_by, 0.0))
    return times


def movement(block: Block, rows: Ints, first: int, last: int, disk_bytes: int) -> tuple[int, float]:
    """Seeks and seconds of rows[first:last], all of one device. The first is free: nothing was before."""
    position = 0.0
    seeks = 0
    for part, distance in iter_distances(block, rows, first, last):
        if part.start == first:
            distance[0] = 0
        seeks += int((np.abs(distance) > NEAR_SECTORS).sum())
        position += float(position_ms(distance.astype(np.float64), disk_bytes).sum())
    return seeks, position / 1e3


def transfer_s(block: Block, rows: Ints, disk_bytes: int) -> float:
    """Of these rows, whatever their order."""
    total = 0.0
    for part in parts(rows.size):
        here = rows[part]
        at = np.clip(block.sector[here] * (SECTOR_BYTES / disk_bytes), 0.0, 1.0)
        total += float((block.bytes[here] / (OUTER_BYTES_S - (OUTER_BYTES_S - INNER_BYTES_S) * at)).sum())
    return total


def by_order(block: Block, issued: Ints, queued: Ints, sizes: dict[int, int]) -> list[OrderRow]:
    """One row per device (rows in turn are in order of devices); sizes: of devices where known."""
    dev = block.dev[issued]
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(dev[1:] != dev[:-1])), int(dev.size)] if dev.size else []
    found = []
    for first, last in pairwise(edges):
        number = int(dev[first])
        disk_bytes = max(sizes.get(number, 0), LEAST_BYTES)
        transfer = transfer_s(block, issued[first:last], disk_bytes)
        costs = [Cost(*movement(block, rows, first, last, disk_bytes), transfer) for rows in (issued, queued)]
        found.append(OrderRow(number, last - first, *costs))
    return found
