# SPDX-License-Identifier: BSD-2-Clause
"""Where the time of a dip went, against matched time outside: seconds by cause that add up to the loss.

Of n progress in a window of T seconds, with s_c seconds of threads by cause, outside would have taken
n x (sum of s_c outside / sum of n outside). What is more is the excess of c; the excesses, divided by the
threads at work, and a line for a changed number of these, add up to the loss T - n / (rate outside) exactly.
Inside is counted. What varies is what would have been: its interval comes from a circular block bootstrap
of the outside bins, all lines at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.dips.spent import Spent
from analysis.measures.dips.tracks import Track
from analysis.tables.store import I64

FEWER_THREADS = "threads at work"  # key of the line for a changed number of threads
OUTSIDE_LEAST = 10  # bins
BLOCKS_LEAST = 8  # with fewer there is a range and no interval
MIX_MOST = 0.1  # distance of two mixes of calls: half the sum of the differences of their shares
NAMED_LEAST = 0.1  # share of the loss of a cause that is named
UNKNOWN_MOST = 0.2
DRAWS = 999


@dataclass(frozen=True)
class Line:
    """One cause: seconds of wall time inside, what outside makes of as much progress, and the difference."""

    key: str
    inside_s: float
    expected_s: float
    excess_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class Account:
    """The loss of one window. lines: largest excess first; they add up to loss_s."""

    seconds: float  # of the window
    loss_s: float
    low_s: float
    high_s: float
    lines: list[Line]
    rate_in: float  # progress per second
    rate_out: float
    threads_in: float
    threads_out: float
    outside_bins: int  # 0: a stop, in which all time is lost
    is_interval: bool  # low and high are of 95 %; else the range of the blocks outside
    mix_s: float  # of the loss: what other calls, or more of them for the progress, would have taken outside
    is_matched: bool  # inside and outside have the same mix of calls
    unknown_s: float  # of the excess

    def named(self) -> list[Line]:
        """The causes that may be named; none if too much is not known."""
        if self.unknown_s > UNKNOWN_MOST * self.loss_s:
            return []
        return [
            line
            for line in self.lines
            if line.excess_s >= NAMED_LEAST * self.loss_s and (line.low_s > 0 or not self.outside_bins)
        ]


def account_of_stop(spent: Spent, length_ns: I64, bins: I64) -> Account | None:
    """A stop: nothing is done in it, so all of its time is lost. None: no thread was seen in it."""
    seconds = float(length_ns[bins].sum()) / 1e9
    ns = spent.ns[:, bins].sum(axis=1)
    threads = float(ns.sum()) / 1e9 / seconds
    if threads <= 0:
        return None
    lines = []
    for key, one in zip(spent.keys, ns.tolist(), strict=True):
        own = one / 1e9 / threads
        if own > 0:
            lines.append(Line(key, own, 0.0, own, own, own))
    unknown = sum(line.excess_s for line in lines if not spent.is_known(line.key))
    lines.sort(key=lambda line: -line.excess_s)
    return Account(
        seconds, seconds, seconds, seconds, lines, 0.0, 0.0, threads, threads, 0, True, 0.0, True, unknown
    )


def _mix(kind_calls: I64) -> F64:
    """Share of each kind of call."""
    return np.asarray(kind_calls / np.maximum(kind_calls.sum(axis=0), 1))


def _distance(first: F64, other: F64) -> F64:
    return np.asarray(np.abs(first - other).sum(axis=0) / 2)


def choose_outside(track: Track, inside: I64, away: Sequence[tuple[int, int]]) -> tuple[I64, bool]:
    """Bins that the dip may be held against, and whether they have its mix of calls.

    They are as far from every dip of the track (away: first and last bin of each) as the dip is long.
    """
    length = inside.size
    bins = np.arange(track.start_ns.size)
    free = np.ones(bins.size, dtype=np.bool_)
    for first, last in away:
        free[max(0, first - length) : last + length] = False
    least = max(OUTSIDE_LEAST, 2 * length)
    outside = np.flatnonzero(free)
    if outside.size < least:
        return np.zeros(0, dtype=np.int64), False
    mix = _mix(track.kind_calls[:, inside].sum(axis=1))
    if float(_distance(mix, _mix(track.kind_calls[:, outside].sum(axis=1)))) <= MIX_MOST:
        return outside, True
    alike = outside[_distance(mix[:, None], _mix(track.kind_calls[:, outside])) <= MIX_MOST]
    return (alike, True) if alike.size >= least else (outside, False)


def _bootstrapped(values: F64, block: int, random: np.random.Generator) -> F64:
    """Sums of resampled bins, all rows at once: draws x rows. values: rows x bins, a circle."""
    size = values.shape[1]
    sums = np.concatenate((np.zeros((values.shape[0], 1)), np.cumsum(np.tile(values, 2), axis=1)), axis=1)
    start = random.integers(0, size, (DRAWS, math.ceil(size / block)))
    return np.asarray((sums[:, start + block] - sums[:, start]).sum(axis=2).T)


def _blocks(values: F64, block: int) -> F64:
    """Sums of the blocks that the bins make, one behind the other: blocks x rows."""
    count = max(values.shape[1] // block, 1)
    used = values[:, : count * block] if values.shape[1] >= block else values
    return np.asarray(used.reshape(values.shape[0], count, -1).sum(axis=2).T)


def _mix_seconds(track: Track, inside: I64, outside: I64) -> float:
    """Thread-seconds that the changed calls per progress take (symmetric, after Kitagawa and Oaxaca)."""
    n_in, n_out = float(track.progress[inside].sum()), float(track.progress[outside].sum())
    calls_in, calls_out = (track.kind_calls[:, bins].sum(axis=1) for bins in (inside, outside))
    ns_in, ns_out = (track.kind_ns[:, bins].sum(axis=1) for bins in (inside, outside))
    per_call_in = ns_in / np.maximum(calls_in, 1)
    per_call_out = ns_out / np.maximum(calls_out, 1)
    # a kind that only one side has, has that side's time a call on both
    per_call_in = np.where(calls_in > 0, per_call_in, per_call_out)
    per_call_out = np.where(calls_out > 0, per_call_out, per_call_in)
    change = calls_in / n_in - calls_out / n_out
    return float((change * (per_call_in + per_call_out) / 2).sum()) * n_in / 1e9


def account_of_dip(
    track: Track, spent: Spent, inside: I64, outside: I64, is_matched: bool, seed: int = 1
) -> Account | None:
    """A dip against the bins outside. None: one of them has no progress, or no thread was seen."""
    seconds = float(track.length_ns[inside].sum()) / 1e9
    progress = track.progress.astype(np.float64)
    n_in, n_out = float(progress[inside].sum()), float(progress[outside].sum())
    seconds_out = float(track.length_ns[outside].sum()) / 1e9
    ns_in = spent.ns[:, inside].sum(axis=1) / 1e9
    threads_in = float(ns_in.sum()) / seconds
    values = np.concatenate(
        (spent.ns[:, outside] / 1e9, track.length_ns[None, outside] / 1e9, progress[None, outside])
    )
    sums = values.sum(axis=1)
    threads_out = float(sums[:-2].sum()) / seconds_out if seconds_out else 0.0
    if n_in <= 0 or n_out <= 0 or threads_in <= 0 or threads_out <= 0:
        return None
    block = max(inside.size, math.ceil(math.sqrt(outside.size)))
    is_interval = outside.size >= BLOCKS_LEAST * block
    drawn = (
        _bootstrapped(values, block, np.random.default_rng(seed))
        if is_interval
        else _blocks(values, min(block, outside.size))
    )
    drawn = drawn[drawn[:, -1] > 0]

    def excesses(sums: F64) -> F64:
        """Wall seconds of each line, then of fewer threads, then the whole loss: draws x (lines + 2)."""
        expected = n_in * sums[:, :-1] / sums[:, -1:]
        of_line = (ns_in - expected[:, :-1]) / threads_in
        loss = seconds - expected[:, -1]
        return np.concatenate((of_line, (loss - of_line.sum(axis=1))[:, None], loss[:, None]), axis=1)

    value = excesses(sums[None, :])[0]
    limits = (2.5, 97.5) if is_interval else (0, 100)
    low, high = (np.percentile(excesses(drawn), at, axis=0) for at in limits)
    low, high = np.minimum(low, value), np.maximum(high, value)
    keys = [*spent.keys, FEWER_THREADS]
    inside_s = [*(ns_in / threads_in).tolist(), 0.0]
    lines = [
        Line(key, inside_s[i], inside_s[i] - float(value[i]), *(float(one[i]) for one in (value, low, high)))
        for i, key in enumerate(keys)
    ]
    lines.sort(key=lambda line: -line.excess_s)
    return Account(
        seconds=seconds,
        loss_s=float(value[-1]),
        low_s=float(low[-1]),
        high_s=float(high[-1]),
        lines=lines,
        rate_in=n_in / seconds,
        rate_out=n_out / seconds_out,
        threads_in=threads_in,
        threads_out=threads_out,
        outside_bins=int(outside.size),
        is_interval=is_interval,
        mix_s=_mix_seconds(track, inside, outside) / threads_in,
        is_matched=is_matched,
        unknown_s=sum(line.excess_s for line in lines if not spent.is_known(line.key)),
    )
