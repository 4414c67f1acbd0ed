# SPDX-License-Identifier: BSD-2-Clause
"""How much longer requests took because the device served other requests meanwhile.

Requests of the same operation and about the same size are compared: those that were queued while one of the
others' was under way, and those that had none of the others' under way, nor for some time after. What decides
is the moment of queueing and a time of fixed length, never the request's own length: a long request meets
others more often, which does not mean that they made it long.

The share of the excess is 1 - mean(without) / mean(with), of queue to completion.

Where too few requests are without the others', a line is fitted to those that met them: queue to completion
by what the other's request still had to go then. When a request is queued, the other's is at any point of its
time: if the device serves it first, each nanosecond that it still has to go is one for the request, and the
slope is 1; if it serves both at once, it is 0. The excess is then the slope times what was still to go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.critical_path.stretches import Mask, spans
from analysis.tables.block import Block
from analysis.tables.store import I64

LEAST_COMPARED = 20  # requests on either side
COMPARED_MOST = 400_000  # requests that are looked at; of more, every n-th
SIZES = 40  # size classes, by powers of two


@dataclass(frozen=True)
class Excess:
    """The share of each asked request's time that is excess, with its limits."""

    share: F64  # 0..1 by asked row; 0 where it was not queued with others' under way
    low: F64
    high: F64
    met: Mask  # queued while one of the others' was under way
    is_compared: Mask  # met, and its kind could be compared
    is_behind: bool  # by the line: there were too few requests without the others'
    with_ns: float  # means over the compared kinds, weighted by the asked requests that met others
    without_ns: float


def kind_of(block: Block, rows: I64) -> I64:
    """Operation and power of two of the size, as one number."""
    size = np.log2(np.maximum(block.bytes[rows], 1)).astype(np.int64)
    return block.op.codes[rows].astype(np.int64) * SIZES + np.minimum(size, SIZES - 1)


def excess_of(block: Block, asked: I64, own: Mask, others: Mask) -> Excess:
    """The excess of the asked rows. own: rows that may be compared; others: rows that are in the way."""
    nothing = np.zeros(asked.size)
    no = np.zeros(asked.size, dtype=np.bool_)
    in_way = np.flatnonzero(others & block.lasting)
    if not asked.size or not in_way.size:
        return Excess(nothing, nothing, nothing, no, no, False, 0.0, 0.0)
    begin, end = block.queue_ns[in_way], block.complete_ns[in_way]
    busy = spans(begin, end, int(begin.min()), int(end.max()) + 1)
    met = _touch(busy.begin, busy.end, block.queue_ns[asked], 0)
    compared = np.flatnonzero(own & block.timed)
    compared = compared[:: max(compared.size // COMPARED_MOST, 1)]
    kinds = kind_of(block, compared)
    is_with = _touch(busy.begin, busy.end, block.queue_ns[compared], 0)
    took = (block.complete_ns[compared] - block.queue_ns[compared]).astype(np.float64)
    share, low, high = nothing.copy(), nothing.copy(), nothing.copy()
    is_compared, is_behind = no.copy(), False
    by_queue = np.argsort(begin, kind="stable")
    begin, last_end = begin[by_queue], np.maximum.accumulate(end[by_queue])

    def still_to_go(rows: I64) -> F64:
        """Of the others' requests that were queued before each row: until the last of them ends."""
        queue = block.queue_ns[rows]
        at = np.searchsorted(begin, queue, side="right") - 1
        return np.where(at >= 0, np.maximum(last_end[np.maximum(at, 0)] - queue, 0), 0).astype(np.float64)

    asked_kinds = kind_of(block, asked)
    sums = [0.0, 0.0, 0.0]
    for kind in np.unique(asked_kinds[met]).tolist():
        mine = kinds == kind
        slow = took[mine & is_with]
        if slow.size < LEAST_COMPARED:
            continue
        ahead = int(np.median(slow))
        clear = mine & ~_touch(busy.begin, busy.end, block.queue_ns[compared], ahead)
        fast = took[clear]
        at = met & (asked_kinds == kind)
        if fast.size < LEAST_COMPARED:
            slope, error = _slope(still_to_go(compared[mine & is_with]), slow)
            if slope - 2 * error <= 0:
                continue
            to_go = still_to_go(asked[at]) / np.maximum(
                block.complete_ns[asked[at]] - block.queue_ns[asked[at]], 1
            )
            share[at] = np.clip(slope * to_go, 0, 1)
            low[at] = np.clip((slope - 2 * error) * to_go, 0, 1)
            high[at] = np.clip((slope + 2 * error) * to_go, 0, 1)
            is_compared |= at
            is_behind = True
            count = float(at.sum())
            without = slow.mean() - slope * still_to_go(compared[mine & is_with]).mean()
            sums = [sums[0] + count, sums[1] + count * slow.mean(), sums[2] + count * max(without, 0.0)]
            continue
        ratio = float(fast.mean() / slow.mean())
        # relative error of a ratio of means; times of requests repeat each other, so it is a rough one
        error = ratio * float(
            np.hypot(
                fast.std() / fast.mean() / np.sqrt(fast.size), slow.std() / slow.mean() / np.sqrt(slow.size)
            )
        )
        share[at] = max(1 - ratio, 0.0)
        low[at], high[at] = max(1 - ratio - 2 * error, 0.0), min(max(1 - ratio + 2 * error, 0.0), 1.0)
        is_compared |= at
        count = float(at.sum())
        sums = [sums[0] + count, sums[1] + count * slow.mean(), sums[2] + count * fast.mean()]
    count = max(sums[0], 1.0)
    return Excess(share, low, high, met, is_compared, is_behind, sums[1] / count, sums[2] / count)


def _slope(x: F64, y: F64) -> tuple[float, float]:
    """Slope of the least-squares line, at most 1, and its standard error; infinite where x is the same."""
    spread = float(((x - x.mean()) ** 2).sum())
    if not spread:
        return 0.0, float("inf")
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    rest = y - y.mean() - slope * (x - x.mean())
    return min(slope, 1.0), float(np.sqrt((rest**2).mean() / spread))


def _touch(begin: I64, end: I64, t: I64, ahead_ns: int) -> Mask:
    """Whether each [t, t + ahead] touches one of the spans, which are ascending without overlap."""
    at = np.searchsorted(begin, t + ahead_ns, side="right") - 1
    return np.asarray((at >= 0) & (end[np.maximum(at, 0)] > t))
