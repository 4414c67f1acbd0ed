# SPDX-License-Identifier: BSD-2-Clause
"""How much longer requests took because the device served other requests meanwhile.

Requests of the same operation and about the same size are compared: those that were queued while one of the
others' was under way, and those that had none of the others' under way, nor for some time after. What decides
is the moment of queueing and a time of fixed length, never the request's own length: a long request meets
others more often, which does not mean that they made it long.

The share of the excess is 1 - mean(without) / mean(with), of queue to completion. Where too few requests are
without the others', there is no such comparison.
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
    is_compared: Mask  # met, and its kind had enough requests without
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
        return Excess(nothing, nothing, nothing, no, no, 0.0, 0.0)
    begin, end = block.queue_ns[in_way], block.complete_ns[in_way]
    busy = spans(begin, end, int(begin.min()), int(end.max()) + 1)
    met = _touch(busy.begin, busy.end, block.queue_ns[asked], 0)
    compared = np.flatnonzero(own & block.timed)
    compared = compared[:: max(compared.size // COMPARED_MOST, 1)]
    kinds = kind_of(block, compared)
    is_with = _touch(busy.begin, busy.end, block.queue_ns[compared], 0)
    took = (block.complete_ns[compared] - block.queue_ns[compared]).astype(np.float64)
    share, low, high = nothing.copy(), nothing.copy(), nothing.copy()
    is_compared = no.copy()
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
        if fast.size < LEAST_COMPARED:
            continue
        ratio = float(fast.mean() / slow.mean())
        # relative error of a ratio of means; times of requests repeat each other, so it is a rough one
        error = ratio * float(
            np.hypot(
                fast.std() / fast.mean() / np.sqrt(fast.size), slow.std() / slow.mean() / np.sqrt(slow.size)
            )
        )
        at = met & (asked_kinds == kind)
        share[at] = max(1 - ratio, 0.0)
        low[at], high[at] = max(1 - ratio - 2 * error, 0.0), min(max(1 - ratio + 2 * error, 0.0), 1.0)
        is_compared |= at
        count = float(at.sum())
        sums = [sums[0] + count, sums[1] + count * slow.mean(), sums[2] + count * fast.mean()]
    count = max(sums[0], 1.0)
    return Excess(share, low, high, met, is_compared, sums[1] / count, sums[2] / count)


def _touch(begin: I64, end: I64, t: I64, ahead_ns: int) -> Mask:
    """Whether each [t, t + ahead] touches one of the spans, which are ascending without overlap."""
    at = np.searchsorted(begin, t + ahead_ns, side="right") - 1
    return np.asarray((at >= 0) & (end[np.maximum(at, 0)] > t))
