# SPDX-License-Identifier: BSD-2-Clause
"""Rows of the table disk_service and the block requests that they served, one to one.

A request reaches the disk between its issue and its completion; device, operation, sector and size are the
same. The disk's server sets arrivals back by what its transport takes, so an arrival may lie a little before
the issue. A destage is no request: it has the class of the last write that the disk took of its first sector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.disk_service import DiskService
from analysis.tables.store import I64, Categorical

NONE = -1
EARLY_NS = 1_000_000  # an arrival is at most so long before the issue
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Joined:
    """The rows' requests."""

    request: I64  # row of the table block; NONE: a destage, or no such request was recorded
    class_: Categorical  # of each row: the request's; of a destage that of what it writes
    unmatched: int  # timed rows of requests without a request; most are older than the recording
    without_row: int  # requests to these disks without a row


def join(service: DiskService, block: Block | None) -> Joined:
    """Match the rows with requests. Without a block table none is matched, and no class is known."""
    asked = service.timed & (service.arrival_ns > 0) & ~service.op.is_("destage")
    request = np.full(service.rows, NONE, dtype=np.int64)
    without_row = 0
    if block is not None and block.rows:
        rows = np.flatnonzero(asked)
        known = np.flatnonzero(np.isin(block.dev, np.unique(service.dev)))
        request[rows] = _matched(service, rows, block, known, 0)
        left = known[~np.isin(known, request[rows])]
        rows = rows[request[rows] == NONE]
        request[rows] = _matched(service, rows, block, left, EARLY_NS)
        rows = np.flatnonzero(asked)
        matched = request[rows][request[rows] != NONE]
        moved = block.op.is_in(("read", "write", "flush"))[known]
        without_row = int(np.count_nonzero(moved)) - int(matched.size)
    class_ = _classes(service, block, request)
    unmatched = int(np.count_nonzero(asked & (request == NONE)))
    return Joined(request, class_, unmatched, max(without_row, 0))


def _matched(service: DiskService, rows: I64, block: Block, known: I64, early_ns: int) -> I64:
    """The request of each of these rows: of equal place and size the last that was issued before the arrival.

    early_ns: or at most so long after it.
    """
    found = np.full(rows.size, NONE, dtype=np.int64)
    if not rows.size or not known.size:
        return found
    is_flush, flushes = service.op.is_("flush")[rows], block.op.is_("flush")[known]
    kinds = np.concatenate((_kind(block.op, known), _kind(service.op, rows)))
    dev = np.concatenate((block.dev[known], service.dev[rows])).astype(np.int64)
    sector = np.concatenate(
        (np.where(flushes, 0, block.sector[known]), np.where(is_flush, 0, service.sector[rows]))
    )
    size = np.concatenate(
        (
            np.where(flushes, 0, block.bytes[known].astype(np.int64) // SECTOR_BYTES),
            np.where(is_flush, 0, service.sectors[rows]),
        )
    )
    t = np.concatenate((block.issue_ns[known] - early_ns, service.arrival_ns[rows]))
    order = np.lexsort((t, size, sector, kinds, dev))
    is_request = order < known.size
    last = np.maximum.accumulate(np.where(is_request, np.arange(order.size), NONE))
    at = np.flatnonzero(~is_request & (last >= 0))
    candidate, row = order[last[at]], order[at]
    same = (dev[candidate] == dev[row]) & (sector[candidate] == sector[row]) & (size[candidate] == size[row])
    same &= (kinds[candidate] == kinds[row]) & (block.complete_ns[known[candidate]] >= t[row])
    candidate, row = candidate[same], row[same]
    _, first = np.unique(candidate, return_index=True)  # a request has one row
    found[row[first] - known.size] = known[candidate[first]]
    return found


def _kind(op: Categorical, rows: I64) -> npt.NDArray[np.int64]:
    """Operations as numbers that both tables share; -1: another, which matches none of the disk's."""
    names = ("read", "write", "flush")
    numbers = np.array([names.index(label) if label in names else -1 for label in op.labels] + [-1])
    return np.asarray(numbers[op.codes[rows]], dtype=np.int64)


def _classes(service: DiskService, block: Block | None, request: I64) -> Categorical:
    labels = list(dict.fromkeys([*(block.class_.labels if block is not None else ()), UNKNOWN]))
    codes = np.full(service.rows, labels.index(UNKNOWN), dtype=np.int64)
    if block is not None:
        has = request != NONE
        codes[has] = block.class_.codes[request[has]]
        _destages(service, codes)
    return Categorical(codes.astype(np.int8 if len(labels) < 127 else np.int32), tuple(labels))


def _destages(service: DiskService, codes: npt.NDArray[np.int64]) -> None:
    """Give destages the class of the write that is the last before them over their first sector."""
    writes = np.flatnonzero(service.op.is_("write") & service.timed)
    destages = np.flatnonzero(service.op.is_("destage") & service.timed)
    if not writes.size or not destages.size:
        return
    rows = np.concatenate((writes, destages))
    order = np.lexsort((service.start_ns[rows], service.sector[rows], service.dev[rows]))
    is_write = order < writes.size
    last = np.maximum.accumulate(np.where(is_write, np.arange(order.size), NONE))
    at = np.flatnonzero(~is_write & (last >= 0))
    write, destage = rows[order[last[at]]], rows[order[at]]
    covers = service.dev[write] == service.dev[destage]
    covers &= service.sector[destage] - service.sector[write] < service.sectors[write]
    codes[destage[covers]] = codes[write[covers]]
