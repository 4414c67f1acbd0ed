# SPDX-License-Identifier: BSD-2-Clause
"""Which pieces of the critical path are at a request: with its row of the table block, and who slept for it.

    QUEUE      the request waits to be issued: for a throttle, the scheduler, a tag
    DEVICE     it is with its device; of a loop device's request, with the disk below
    MACHINERY  a loop device's worker has it

A piece below a loop device's request counts for that request, not for the one that it leads to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from analysis.measures.critical_path.causes import READY
from analysis.measures.critical_path.ends import AT_DISK_BELOW, OF_DEVICE
from analysis.measures.critical_path.pieces import Kind, Pieces
from analysis.measures.critical_path.results import PathRows
from analysis.measures.critical_path.stretches import I32, NONE, U8, Mask
from analysis.measures.waits.sleeps import Sleeps
from analysis.tables.store import I64


class Part(IntEnum):
    """Where a request is during a piece."""

    QUEUE = 0
    DEVICE = 1
    MACHINERY = 2


@dataclass(frozen=True)
class AtRequests:
    """Pieces at requests, a row each."""

    begin: I64
    end: I64
    part: U8
    request: I32  # number of the request, see RequestLabels
    row: I64  # of the table block; NONE: a bio to a volume
    # code of Causes: what the thread waited for that slept until its completion; if not known, the root
    waiter: I32
    own: I32  # the same of the root itself
    own_sleep: I32  # the root's interval
    weak: Mask

    @property
    def ns(self) -> I64:
        """Length of each piece."""
        return self.end - self.begin

    def take(self, rows: I64 | Mask) -> AtRequests:
        """Some of the pieces."""
        return AtRequests(**{name: getattr(self, name)[rows] for name in self.__dataclass_fields__})


def at_requests(rows: PathRows) -> AtRequests:
    """The pieces at requests, of all roots."""
    lots = [_of_lot(pieces, rows) for pieces in rows.pieces]
    names = AtRequests.__dataclass_fields__
    return AtRequests(**{name: np.concatenate([getattr(lot, name) for lot in lots]) for name in names})


def _of_lot(pieces: Pieces, rows: PathRows) -> AtRequests:
    is_below = pieces.below >= 0
    outer = np.where(is_below, pieces.below, pieces.request)
    is_device = np.where(is_below, np.isin(pieces.kind, AT_DISK_BELOW), np.isin(pieces.kind, OF_DEVICE))
    is_queue = ~is_below & (pieces.kind == Kind.QUEUE)
    part = np.where(is_queue, Part.QUEUE, np.where(is_device, Part.DEVICE, Part.MACHINERY)).astype(np.uint8)
    at = np.flatnonzero((outer >= 0) & (is_below | is_device | is_queue))
    code = rows.causes.code
    request = outer[at].astype(np.int32)
    direct = pieces.request[at] == request
    waiter = np.where(direct & (pieces.waiter[at] >= 0), code[np.maximum(pieces.waiter[at], 0)], NONE)
    own = pieces.own[at]
    own_code = np.where(own >= 0, code[np.maximum(own, 0)], NONE).astype(np.int32)
    waiter = _spread(request, pieces.root[at], waiter).astype(np.int32)
    return AtRequests(
        begin=pieces.begin[at],
        end=pieces.end[at],
        part=part[at],
        request=request,
        row=rows.requests.row[request],
        waiter=np.where(waiter >= 0, waiter, own_code),
        own=own_code,
        own_sleep=own.astype(np.int32),
        weak=_weak(request, pieces.root[at], direct, pieces.weak[at]),
    )


def _spread(request: I32, root: I32, waiter: I64) -> I64:
    """The waiter of each piece: a worker's pieces have that of the request that the worker served."""
    if not request.size:
        return waiter
    key = root.astype(np.int64) * (int(request.max()) + 1) + request
    _, of = np.unique(key, return_inverse=True)
    found = np.full(int(of.max()) + 1, NONE, dtype=np.int64)
    np.maximum.at(found, of, waiter)
    return np.where(waiter >= 0, waiter, found[of])


def _weak(request: I32, root: I32, direct: Mask, weak: Mask) -> Mask:
    """A worker's pieces are weak where it may have been another; the request took its time all the same."""
    if not request.size:
        return weak
    key = root.astype(np.int64) * (int(request.max()) + 1) + request
    _, of = np.unique(key, return_inverse=True)
    is_sure = np.zeros(int(of.max()) + 1, dtype=np.bool_)
    is_sure[of[direct & ~weak]] = True
    return weak & ~is_sure[of]


def is_within(at: AtRequests, rows: PathRows, sleeps: Sleeps | None) -> Mask:
    """Which pieces are of these sleeps of the roots, by the sleep and the part of it."""
    found = np.zeros(at.begin.size, dtype=np.bool_)
    if sleeps is None or not sleeps.is_timed or not sleeps.begin_ns.size:
        return found
    known = np.flatnonzero(at.own_sleep >= 0)
    number = rows.intervals.whole[at.own_sleep[known]].astype(np.int64)
    zero, span = rows.intervals.start_ns, rows.intervals.end_ns - rows.intervals.start_ns + 1
    key = sleeps.interval.astype(np.int64) * span + (sleeps.begin_ns - zero)
    order = np.argsort(key)
    index = np.searchsorted(key[order], number * span + (at.begin[known] - zero), side="right") - 1
    row = order[np.maximum(index, 0)]
    found[known] = (index >= 0) & (sleeps.interval[row] == number) & (at.begin[known] < sleeps.end_ns[row])
    return found


def woken_ns(rows: PathRows, sleeps: I32) -> int:
    """Time of the path until roots had a CPU, right after these sleeps of theirs (intervals).

    Whoever had the CPU: who sleeps gives it away, and waits for it again.
    """
    intervals, code = rows.intervals, rows.causes.code
    after = np.unique(sleeps[sleeps >= 0]) + 1
    after = after[after < intervals.thread.size]
    after = after[intervals.thread[after] == intervals.thread[after - 1]]
    is_ready = np.array([waited.cause == READY for waited in rows.causes.waited], dtype=np.bool_)
    after = after[is_ready[code[after]]]
    return sum(int(pieces.ns[np.isin(pieces.own, after)].sum()) for pieces in rows.pieces)
