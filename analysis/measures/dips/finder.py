# SPDX-License-Identifier: BSD-2-Clause
"""Dips of one series: windows that lie lower than what is beside them, more than chance makes them.

The most prominent windows of all lengths are tested against series of the same rhythm without a dip: an
autoregressive model, estimated with these windows lifted to their flanks, driven by the series' own
residuals. Every simulated series goes through the same search, so p allows for it. README.md has the rate of
false alarms, measured, and what is missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from analysis.measures.common.timeline import F64
from analysis.measures.dips.autoregression import Models, fit, residuals, simulate

Ints = npt.NDArray[np.int64]

BINS_LEAST = 100
SHORTEST = 5  # bins of a window
GROWTH = 1.4  # of one window's length to the next
LONGEST_SHARE = 0.2  # of the series
FLANK_LEAST, FLANK_SHARE = 10, 0.02
SUM_MOST = 0.9  # sum of the model's coefficients; above it a series wanders too much to tell
DIP_P = 0.003  # of a dip, over the series tested
CANDIDATE_P = 0.02
DEPTH_LEAST = 0.2
LENGTH_LEAST = 0.01  # of the series
DIPS_MOST = 10
TURNS = 5  # windows lifted before the statistic is taken, of this series and of the simulated ones
AT_ONCE = 99  # simulated series in memory


@dataclass(frozen=True)
class Dip:
    """Bins [first, last) and what they are lower than."""

    first: int
    last: int
    depth: float  # 1 - rate inside / rate of the flanks
    p: float
    is_candidate: bool  # DIP_P < p <= CANDIDATE_P, or too shallow or short for a dip


@dataclass(frozen=True)
class Search:
    """Outcome for one series. why_not: no verdict, because; then there are neither dips nor candidates."""

    bins: int
    why_not: str = ""
    dips: list[Dip] = field(default_factory=list)
    candidates: list[Dip] = field(default_factory=list)
    p: float = 1.0  # of the most prominent window
    visible: float | None = None  # depth of a dip over 5 % of the bins that is likely (80 %) to be found


@dataclass(frozen=True)
class _Windows:
    """Window lengths, and of each its starts and flanks."""

    n: int
    lengths: list[int]

    def flank(self, length: int) -> int:
        return max(length, FLANK_LEAST, round(self.n * FLANK_SHARE))

    def step(self, length: int) -> int:
        return max(1, length // 12)

    @property
    def pad(self) -> int:
        return max(self.flank(length) for length in self.lengths)


def _windows(n: int) -> _Windows:
    lengths, length = [], float(SHORTEST)
    while length <= n * LONGEST_SHARE:
        lengths.append(round(length))
        length *= GROWTH
    return _Windows(n, lengths)


@dataclass(frozen=True)
class _Scan:
    """Of each series and length: how far the lowest window is below its flanks, and where it begins."""

    below: F64  # series x lengths; of windows at the ends less, as their flanks are shorter
    plain: F64  # without that damping
    first: Ints


def _scan(x: F64, windows: _Windows) -> _Scan:
    series, n = x.shape
    pad = windows.pad
    sums = np.zeros((series, n + 1 + 2 * pad))
    np.cumsum(x, axis=1, out=sums[:, pad + 1 : pad + 1 + n])
    sums[:, pad + 1 + n :] = sums[:, pad + n : pad + n + 1]
    size = len(windows.lengths)
    below, plain = np.zeros((series, size)), np.zeros((series, size))
    first = np.zeros((series, size), dtype=np.int64)
    rows = np.arange(series)
    for at, length in enumerate(windows.lengths):
        flank, step = windows.flank(length), windows.step(length)
        start = np.arange(0, n - length + 1, step)

        def shifted(by: int, start: Ints = start, step: int = step) -> F64:
            return sums[:, pad + by : pad + by + int(start[-1]) + 1 : step]

        begin, end = shifted(0), shifted(length)
        beside = np.minimum(start, flank) + np.minimum(n - start - length, flank)
        damping = np.sqrt((1 / length + 1 / (2 * flank)) / (1 / length + 1 / beside))
        d = (begin - shifted(-flank) + shifted(length + flank) - end) / beside - (end - begin) / length
        damped = d * damping
        best = damped.argmax(axis=1)
        below[:, at], plain[:, at] = damped[rows, best], d[rows, best]
        first[:, at] = start[best]
    return _Scan(below, plain, first)


def _errors(models: Models, windows: _Windows) -> F64:
    """Standard error of a window's distance from its flanks, by length: series x lengths."""
    variances = models.mean_variances(windows.pad)
    length = np.array(windows.lengths) - 1
    flank = np.array([windows.flank(one) for one in windows.lengths]) - 1
    return np.asarray(np.sqrt(variances[:, length] + variances[:, flank] / 2))


@dataclass(frozen=True)
class _Lifted:
    """The most prominent window of each series, and the model of the series with that window lifted."""

    statistic: F64  # of all windows, with the errors of that model
    at: Ints  # index of the window's length
    first: Ints
    row: F64  # lifted
    models: Models
    errors: F64


def _lift(x: F64, models: Models, errors: F64, windows: _Windows) -> _Lifted:
    """Lift the most prominent window of each series. models, errors: of x."""
    scan = _scan(x, windows)
    rows = np.arange(x.shape[0])
    at = (scan.below / errors).argmax(axis=1)
    first = scan.first[rows, at]
    last = first + np.array(windows.lengths)[at]
    bins = np.arange(x.shape[1])
    inside = (bins >= first[:, None]) & (bins < last[:, None])
    lifted = x + inside * np.maximum(scan.plain[rows, at], 0)[:, None]
    models = fit(lifted)
    errors = _errors(models, windows)
    return _Lifted((scan.below / errors).max(axis=1), at, first, lifted, models, errors)


def _turns(x: F64, windows: _Windows, count: int) -> list[_Lifted]:
    """Lift one window after another: a second dip hides the first one from a model that knows only one."""
    models = fit(x)
    errors = _errors(models, windows)
    found: list[_Lifted] = []
    for _ in range(count):
        found.append(_lift(x, models, errors, windows))
        x, models, errors = found[-1].row, found[-1].models, found[-1].errors
    return found


def _statistic(turns: list[_Lifted]) -> F64:
    """The largest of the turns, of each series."""
    return np.asarray(np.max([turn.statistic for turn in turns], axis=0))


def _chance(
    x: F64, models: Models, statistic: float, windows: _Windows, draws: int, random: np.random.Generator
) -> F64:
    """The statistic of simulated series without a dip; fewer than draws once p is above CANDIDATE_P."""
    driven_by = residuals(x, models)
    enough = CANDIDATE_P * (draws + 1)
    chance: list[F64] = []
    done = above = 0
    while done < draws and above < enough:
        size = min(AT_ONCE, draws - done)
        simulated = simulate(models, driven_by, size, x.size, random)
        chance.append(_statistic(_turns(simulated, windows, TURNS)))
        done += size
        above += int((chance[-1] >= statistic).sum())
    return np.concatenate(chance)


def _refined(x: F64, first: int, length: int, windows: _Windows) -> tuple[int, int]:
    """The window near this one with the most prominent border, to the bin."""
    n, flank = x.size, windows.flank(length)
    sums = np.concatenate(([0.0], np.cumsum(x)))
    reach = max(2, length // 3)
    starts = np.arange(max(0, first - reach), min(n - SHORTEST, first + reach) + 1)
    ends = np.arange(max(SHORTEST, first + length - reach), min(n, first + length + reach) + 1)
    start, end = (one.ravel() for one in np.meshgrid(starts, ends))
    kept = end - start >= SHORTEST
    start, end = start[kept], end[kept]
    left, right = np.maximum(start - flank, 0), np.minimum(end + flank, n)
    beside = (start - left) + (right - end)
    inside = (sums[end] - sums[start]) / (end - start)
    outside = (sums[start] - sums[left] + sums[right] - sums[end]) / np.maximum(beside, 1)
    prominence = (outside - inside) / np.sqrt(1 / (end - start) + 1 / np.maximum(beside, 1))
    best = int(np.where(beside > 0, prominence, -np.inf).argmax())
    return int(start[best]), int(end[best])


def _depth(rate: F64, first: int, last: int, flank: int) -> float:
    beside = np.concatenate((rate[max(0, first - flank) : first], rate[last : last + flank]))
    level = float(beside.mean()) if beside.size else 0.0
    return 1 - float(rate[first:last].mean()) / level if level > 0 else 0.0


def _visible(x: F64, chance: F64, errors: F64, windows: _Windows, tests: int) -> float | None:
    """Depth over 5 % of the bins that is found in about 80 of 100, by the model. None: not even a stop is."""
    at = int(np.argmin(np.abs(np.array(windows.lengths) - max(SHORTEST, 0.05 * x.size))))
    needed = (np.quantile(chance, 1 - DIP_P / tests, method="higher") + 0.84) * errors[at]
    level = float(x.mean())
    if level <= 0 or needed >= level:
        return None
    return float(1 - (1 - needed / level) ** 2)


def search(rate: F64, tests: int = 1, seed: int = 1) -> Search:
    """Search one series of rates for dips. tests: series of the run that are searched.

    Empty bins are not tested, as one of them would look like the bottom of a dip: a dip may have some inside.
    """
    kept = np.flatnonzero(rate > 0)
    found = _search(rate[kept], tests, seed)
    return replace(found, dips=_placed(found.dips, kept), candidates=_placed(found.candidates, kept))


def _placed(dips: list[Dip], kept: Ints) -> list[Dip]:
    """The dips in bins of the whole series."""
    return [replace(dip, first=int(kept[dip.first]), last=int(kept[dip.last - 1]) + 1) for dip in dips]


def _search(rate: F64, tests: int, seed: int) -> Search:
    n = rate.size
    if n < BINS_LEAST:
        return Search(n, f"{n} bins, of at least {BINS_LEAST}")
    # the root makes the spread of counts even; a burst upward shall not make the rest look low
    x = np.sqrt(rate)
    low, high = np.quantile(x, (0.25, 0.75))
    x = np.minimum(x, high + 1.5 * (high - low))
    if np.ptp(x) <= 1e-9 * max(float(x.max()), 1e-300):
        return Search(n, visible=0.0)
    x = x / x.std()
    windows = _windows(n)
    random = np.random.default_rng(seed)
    turns = _turns(x[None, :], windows, DIPS_MOST)
    models = turns[TURNS - 1].models
    total = float(models.sums[0])
    if total > SUM_MOST:
        return Search(n, f"throughput wanders: neighbouring bins are too alike (sum {total:.2f})")
    statistic = float(_statistic(turns[:TURNS])[0])
    draws = math.ceil(2 * tests / DIP_P) - 1  # a dip may be surpassed by one of them
    chance = _chance(x, models, statistic, windows, draws, random)
    p = (1 + int((chance >= statistic).sum())) / (1 + chance.size)
    visible = _visible(x, chance, turns[TURNS - 1].errors[0], windows, tests)
    if p > CANDIDATE_P:
        why_not = "" if visible is not None else "throughput varies so much that no dip would stand out"
        return Search(n, why_not, p=p, visible=visible)
    dips: list[Dip] = []
    candidates: list[Dip] = []
    row = x
    strongest = max(range(TURNS), key=lambda turn: float(turns[turn].statistic[0]))
    for number, turn in enumerate(turns):
        own_p = (1 + int((chance >= turn.statistic[0]).sum())) / (1 + chance.size)
        # the windows lifted before the strongest one are what hid it
        own_p = p if number <= strongest else max(own_p, p)
        if own_p > CANDIDATE_P:
            break
        length = windows.lengths[int(turn.at[0])]
        first, last = _refined(row, int(turn.first[0]), length, windows)
        depth = _depth(rate, first, last, windows.flank(length))
        is_dip = own_p <= DIP_P / tests and depth >= DEPTH_LEAST and last - first >= LENGTH_LEAST * n
        (dips if is_dip else candidates).append(Dip(first, last, depth, own_p, not is_dip))
        row = turn.row[0]
    joined = _joined(dips, rate)
    # a window of a few lengths leaves an edge of a dip
    apart = [one for one in candidates if all(one.last < dip.first or dip.last < one.first for dip in joined)]
    return Search(n, "", joined, apart, p, visible)


def _joined(dips: list[Dip], rate: F64) -> list[Dip]:
    """Dips by time; those that touch are one."""
    joined: list[Dip] = []
    for dip in sorted(dips, key=lambda dip: dip.first):
        if joined and dip.first <= joined[-1].last:
            before = joined.pop()
            last = max(before.last, dip.last)
            depth = _depth(rate, before.first, last, max(last - before.first, FLANK_LEAST))
            dip = Dip(before.first, last, depth, min(before.p, dip.p), False)
        joined.append(dip)
    return joined
