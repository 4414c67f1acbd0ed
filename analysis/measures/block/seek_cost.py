# SPDX-License-Identifier: BSD-2-Clause
"""Seeks in queue order against issue order; on request the same on a model of a spinning disk.

The model is no measurement: one request at a time, in the order given, on a disk without cache, read-ahead or
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
class ModelTime:
    """Seconds that the model of a disk takes for the requests of a device, in one order."""

    position_s: float  # moving the head and waiting for the right angle
    transfer_s: float


@dataclass(frozen=True)
class Order:
    """The requests of a device in one order."""

    seeks: int
    model: ModelTime | None  # None: not asked for


@dataclass(frozen=True)
class OrderRow:
    """One device's requests, as issued and as queued."""

    dev: int
    requests: int
    issued: Order
    queued: Order

    @property
    def saved_seeks(self) -> int:
        """Seeks that issuing in another order than queued avoided; negative: it made more."""
        return self.queued.seeks - self.issued.seeks

    @property
    def saved_model_s(self) -> float:
        """Positioning time in the model that issuing in another order avoided; 0 without the model."""
        if self.queued.model is None or self.issued.model is None:
            return 0.0
        return self.queued.model.position_s - self.issued.model.position_s


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


def movement(
    block: Block, rows: Ints, first: int, last: int, disk_bytes: int, with_model: bool = True
) -> tuple[int, float]:
    """Seeks and the model's seconds of rows[first:last], all of one device; the first request costs nothing.

    The seconds are 0 without the model.
    """
    position = 0.0
    seeks = 0
    for part, distance in iter_distances(block, rows, first, last):
        if part.start == first:
            distance[0] = 0
        seeks += int((np.abs(distance) > NEAR_SECTORS).sum())
        if with_model:
            position += float(position_ms(distance.astype(np.float64), disk_bytes).sum())
    return seeks, position / 1e3


def transfer_s(block: Block, rows: Ints, disk_bytes: int) -> float:
    """The model's seconds for the transfer of these rows, in any order."""
    total = 0.0
    for part in parts(rows.size):
        part_rows = rows[part]
        position = np.clip(block.sector[part_rows] * (SECTOR_BYTES / disk_bytes), 0.0, 1.0)
        total += float(
            (block.bytes[part_rows] / (OUTER_BYTES_S - (OUTER_BYTES_S - INNER_BYTES_S) * position)).sum()
        )
    return total


def by_order(
    block: Block, issued: Ints, queued: Ints, sizes: dict[int, int], with_model: bool = True
) -> list[OrderRow]:
    """One row per device. issued, queued: rows sorted by device; sizes: bytes of the devices, where known."""
    dev = block.dev[issued]
    edges = [0, *(int(i) + 1 for i in np.flatnonzero(dev[1:] != dev[:-1])), int(dev.size)] if dev.size else []
    order_rows = []
    for first, last in pairwise(edges):
        number = int(dev[first])
        disk_bytes = max(sizes.get(number, 0), LEAST_BYTES)
        transfer = transfer_s(block, issued[first:last], disk_bytes) if with_model else 0.0
        orders = []
        for rows in (issued, queued):
            seeks, position_s = movement(block, rows, first, last, disk_bytes, with_model)
            orders.append(Order(seeks, ModelTime(position_s, transfer) if with_model else None))
        order_rows.append(OrderRow(number, last - first, *orders))
    return order_rows
