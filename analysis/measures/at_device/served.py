# SPDX-License-Identifier: BSD-2-Clause
"""How much longer requests took because the device served other requests meanwhile.

Requests of the same operation and about the same size are compared: those that were queued while one of the
others' was under way, and those that had none of the others' under way, nor for some time after. What decides
is the moment of queueing and a time of fixed length, never the request's own length: a long request meets
others more often, which does not mean that they made it long.

The share of the excess is 1 - mean(without) / mean(with), of queue to completion.

Where the device serves one request at a time (in_turn.py), the excess is the time in which it served others',
but for what one takes alone. It may serve others' first that were queued just after.

Where too few requests are without the others', a line is fitted to those that met them: queue to completion
by what the other's request still had to go then. When a request is queued, the other's is at any point of its
time: if the device serves it first, each nanosecond that it still has to go is one for the request, and the
slope is 1; if it serves both at once, it is 0. The excess is then the slope times what was still to go.
Where that tells nothing, another line is fitted, by how many of the others' were under way: a disk that
serves many at once takes no longer beside many than beside few.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from analysis.measures.at_device.in_turn import InTurn
from analysis.measures.at_device.kinds import kind_of
from analysis.measures.common.timeline import F64
from analysis.measures.critical_path.stretches import Mask, spans
from analysis.tables.block import Block
from analysis.tables.store import I64

LEAST_COMPARED = 20  # requests on either side
MOST_UNSURE = 0.25  # of the mean time: two standard errors of what BY_NUMBER tells
COMPARED_MOST = 400_000  # requests that are looked at; of more, every n-th


class How(StrEnum):
    """How the excess is known."""

    NOT = "not"
    COMPARED = "compared"  # with requests that met none of the others'
    IN_TURN = "in turn"
    BEHIND = "behind"  # by the line
    BY_NUMBER = "by number"  # by the other line


@dataclass(frozen=True)
class Excess:
    """The share of each asked request's time that is excess, with its limits."""

    share: F64  # 0..1 by asked row; 0 where it was not queued with others' under way
    low: F64
    high: F64
    met: Mask  # queued while one of the others' was under way
    is_compared: Mask  # met, and its kind could be compared
    how: How  # of the kinds that were compared, the last
    with_ns: float  # means over the compared kinds, weighted by the asked requests that met others
    without_ns: float


def excess_of(block: Block, asked: I64, own: Mask, others: Mask) -> Excess:
    """The excess of the asked rows. own: rows that may be compared; others: rows that are in the way."""
    found = _Found.nothing(asked.size)
    in_way = np.flatnonzero(others & block.lasting)
    if not asked.size or not in_way.size:
        return found.made()
    begin, end = block.queue_ns[in_way], block.complete_ns[in_way]
    busy = spans(begin, end, int(begin.min()), int(end.max()) + 1)
    found.met = _touch(busy.begin, busy.end, block.queue_ns[asked], 0)
    compared = np.flatnonzero(own & block.timed)
    compared = compared[:: max(compared.size // COMPARED_MOST, 1)]
    kinds, asked_kinds = kind_of(block, compared), kind_of(block, asked)
    is_with = _touch(busy.begin, busy.end, block.queue_ns[compared], 0)
    took = (block.complete_ns[compared] - block.queue_ns[compared]).astype(np.float64)
    ahead, in_turn = _Ahead.of(block, in_way), InTurn.of(block, in_way)
    serves_one: bool | None = None
    for kind in np.unique(asked_kinds[found.met]).tolist():
        mine = kinds == kind
        slow = took[mine & is_with]
        at = found.met & (asked_kinds == kind)
        alone = took[mine & ~is_with]
        some_time = int(np.median(alone)) if alone.size else 0
        fast = took[mine & ~_touch(busy.begin, busy.end, block.queue_ns[compared], some_time)]
        met = compared[mine & is_with]
        is_enough = slow.size >= LEAST_COMPARED
        has_both = is_enough and fast.size >= LEAST_COMPARED
        is_in_turn = is_enough and in_turn.fits(block, met)
        if not is_in_turn and not has_both:
            # too few of a kind: all requests of the device tell
            serves_one = in_turn.serves_one(block) if serves_one is None else serves_one
            is_in_turn = serves_one
        if is_in_turn:
            # those that others overtook have waited, too; what one takes alone is its own
            own_ns = float(np.median(fast)) if fast.size >= LEAST_COMPARED else 0.0
            of_kind = np.flatnonzero(asked_kinds == kind)
            whole = (block.complete_ns[asked[of_kind]] - block.queue_ns[asked[of_kind]]).astype(np.float64)
            waited = in_turn.waited_ns(block, asked[of_kind])
            waited = np.clip(np.minimum(waited, whole - own_ns), 0, None)
            found.met[of_kind] |= waited > 0
            has_met = np.flatnonzero(found.met[of_kind])
            part = waited[has_met] / np.maximum(whole[has_met], 1)
            with_ns = float(whole[has_met].mean())
            without_ns = with_ns - float(waited[has_met].mean())
            rows = np.zeros(asked.size, dtype=np.bool_)
            rows[of_kind[has_met]] = True
            found.add(How.IN_TURN, rows, 1.0, 0.0, with_ns, without_ns, part)
            continue
        if not is_enough:
            continue
        length = np.maximum(block.complete_ns[asked[at]] - block.queue_ns[asked[at]], 1)
        if has_both:
            ratio, error = ratio_of_means(fast, slow)
            found.add(How.COMPARED, at, 1 - ratio, error, float(slow.mean()), float(fast.mean()))
            continue
        to_go = ahead.still_to_go(block.queue_ns[met])
        usual = to_go < ahead.longest_ns
        slope, error = _slope(to_go[usual], slow[usual])
        slope = min(slope, 1.0)
        if usual.sum() < LEAST_COMPARED or slope - 2 * error <= 0:
            number = _under_way(begin, end, block.queue_ns[met])
            slope, error = _slope(number, slow)
            with_ns, mean = float(slow.mean()), float(number.mean())
            if 2 * error * mean <= MOST_UNSURE * with_ns:
                part = _under_way(begin, end, block.queue_ns[asked[at]]) / length
                found.add(
                    How.BY_NUMBER, at, slope, error, with_ns, max(with_ns - max(slope, 0) * mean, 0.0), part
                )
            continue
        part = ahead.still_to_go(block.queue_ns[asked[at]]) / length
        with_ns = float(slow[usual].mean())
        without_ns = max(with_ns - slope * float(to_go[usual].mean()), 0.0)
        found.add(How.BEHIND, at, slope, error, with_ns, without_ns, part)
    return found.made()


@dataclass
class _Found:
    """What was found of the kinds so far."""

    share: F64
    low: F64
    high: F64
    met: Mask
    is_compared: Mask
    how: How = How.NOT
    count: int = 0
    with_ns: float = 0.0  # sums, weighted by count
    without_ns: float = 0.0

    @classmethod
    def nothing(cls, size: int) -> _Found:
        """Of so many rows."""
        no = np.zeros(size, dtype=np.bool_)
        return cls(np.zeros(size), np.zeros(size), np.zeros(size), no, no.copy())

    def add(
        self,
        how: How,
        at: Mask,
        share: float,
        error: float,
        with_ns: float,
        without_ns: float,
        part: F64 | float = 1.0,
    ) -> None:
        """A kind: its rows, its share (of a part of each row's time) with standard error, its means."""
        self.how = how
        self.share[at] = np.clip(share * part, 0, 1)
        self.low[at] = np.clip((share - 2 * error) * part, 0, 1)
        self.high[at] = np.clip((share + 2 * error) * part, 0, 1)
        self.is_compared |= at
        count = int(at.sum())
        self.count += count
        self.with_ns += count * with_ns
        self.without_ns += count * without_ns

    def made(self) -> Excess:
        """The result."""
        count = max(self.count, 1)
        return Excess(
            self.share,
            self.low,
            self.high,
            self.met,
            self.is_compared,
            self.how,
            self.with_ns / count,
            self.without_ns / count,
        )


@dataclass(frozen=True)
class _Ahead:
    """The others' requests, ascending, each with the end of the last one up to it."""

    queue_ns: I64
    last_end_ns: I64
    longest_ns: float  # one that takes longer is overtaken

    @classmethod
    def of(cls, block: Block, in_way: I64) -> _Ahead:
        """Of those whose end was seen."""
        known = in_way[block.timed[in_way]]
        known = known[np.argsort(block.queue_ns[known], kind="stable")]
        queue, end = block.queue_ns[known], block.complete_ns[known]
        longest = 2 * float(np.median(end - queue)) if known.size else 0.0
        return cls(queue, np.maximum.accumulate(end), longest)

    def still_to_go(self, t: I64) -> F64:
        """At each moment: until the last of those that were queued before ends."""
        if not self.queue_ns.size:
            return np.zeros(t.size)
        at = np.searchsorted(self.queue_ns, t, side="right") - 1
        left = np.clip(self.last_end_ns[np.maximum(at, 0)] - t, 0, self.longest_ns)
        return np.where(at >= 0, left, 0.0)


def _under_way(begin: I64, end: I64, t: I64) -> F64:
    """How many spans are open at each moment."""
    begun = np.searchsorted(np.sort(begin), t, side="right")
    return np.asarray(begun - np.searchsorted(np.sort(end), t, side="right"), dtype=np.float64)


def ratio_of_means(a: F64, b: F64) -> tuple[float, float]:
    """mean(a) / mean(b) and its standard error; a rough one, as times of requests repeat each other."""
    ratio = float(a.mean() / b.mean())
    relative = [float(one.std() / one.mean()) / one.size**0.5 for one in (a, b)]
    return ratio, ratio * float(np.hypot(*relative))


def _slope(x: F64, y: F64) -> tuple[float, float]:
    """Slope of the least-squares line, and its standard error; infinite where x is the same."""
    spread = float(((x - x.mean()) ** 2).sum())
    if not spread:
        return 0.0, float("inf")
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    rest = y - y.mean() - slope * (x - x.mean())
    return slope, float(np.sqrt((rest**2).mean() / spread))


def _touch(begin: I64, end: I64, t: I64, ahead_ns: int) -> Mask:
    """Whether each [t, t + ahead] touches one of the spans, which are ascending without overlap."""
    at = np.searchsorted(begin, t + ahead_ns, side="right") - 1
    return np.asarray((at >= 0) & (end[np.maximum(at, 0)] > t))
