# SPDX-License-Identifier: BSD-2-Clause
"""Two sets of runs, compared in one figure: the paper's rule, Welch's test, the ratio, and what n could see.

The word "differ" belongs to the paper's rule (bryant2002). Welch's p stands beside it; p of all figures that
one table shows are corrected together, by holm().
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, nctdtr, stdtr, stdtrit

from analysis.measures.common.statistics import (
    Interval,
    Mean,
    differ,
    difference_interval,
    mean_ci,
    ratio_interval,
    share_of_first,
    welch_error,
    welch_freedom,
)
from analysis.measures.common.timeline import F64

POWER = 0.8
NODES = 128  # of the mean over the spread that two samples of equal variance may show
SEEN = (
    "these runs see: the smallest difference, relative to the first mean, that Welch's test finds at 5 % in"
    " 80 % of such comparisons, if the true spread is the spread seen here"
)


@dataclass(frozen=True)
class Difference:
    """The second set against the first."""

    first: Mean
    other: Mean
    rule: bool | None  # they differ by the paper's rule; None: a set is a single run
    interval: Interval | None  # 95 % of other - first, by Welch; None: a set is a single run
    ratio: float | None  # other / first; None: the first mean is 0
    ratio_interval: Interval | None  # 95 %, by Fieller; None: a single run, or the first mean may be 0
    welch_p: float | None  # two-sided; None: a single run, or no value varies
    seen_pct: float | None  # see SEEN, in percent; None as welch_p, or the first mean is 0


def compare(first: Sequence[float] | F64, other: Sequence[float] | F64) -> Difference | None:
    """The comparison; None: a set has no value. Values are finite: describe() counts those that are not."""
    a, b = mean_ci(first), mean_ci(other)
    return None if a is None or b is None else compare_means(a, b)


def compare_means(a: Mean, b: Mean) -> Difference:
    """The comparison of means that are known with their half-widths."""
    return Difference(
        first=a,
        other=b,
        rule=differ(a, b),
        interval=difference_interval(a, b),
        ratio=b.value / a.value if a.value else None,
        ratio_interval=ratio_interval(a, b),
        welch_p=welch_p(a, b),
        seen_pct=seen_pct(a, b),
    )


def _error(a: Mean, b: Mean) -> float | None:
    """Standard error of the difference of both means; None: a single run, or no value varies."""
    if a.half_width is None or b.half_width is None:
        return None
    error = welch_error(a, b)
    return error if 0 < error < math.inf else None


def welch_p(a: Mean, b: Mean) -> float | None:
    """Two-sided p of equal means at unequal variances (welch)."""
    error = _error(a, b)
    if error is None:
        return None
    return float(2 * stdtr(welch_freedom(a, b), -abs(b.value - a.value) / error))


def seen_pct(a: Mean, b: Mean) -> float | None:
    """The smallest difference that so many runs see with POWER, in percent of the first mean; see SEEN."""
    error = _error(a, b)
    if error is None or not a.value:
        return None
    return 100 * errors_seen(a.n, b.n, round(share_of_first(a, b), 2)) * error / abs(a.value)


@lru_cache(1024)  # equal numbers of runs and like spreads are common
def errors_seen(n_a: int, n_b: int, share: float) -> float:
    """The true difference that Welch's test at 5 % sees with POWER, in standard errors of the difference.

    `share` is the part of a in the squared standard error, 0..1. Two samples' sums of squares are a whole
    V, chi-squared, and a's part B of it, beta-distributed and independent of V. For each B, Welch's statistic
    is a multiple of the noncentral t, and Welch's degrees of freedom are known: power is the mean over B.
    """
    nu_a, nu_b = n_a - 1, n_b - 1
    nu = nu_a + nu_b
    part = betaincinv(nu_a / 2, nu_b / 2, (np.arange(NODES) + 0.5) / NODES)
    of_a, of_b = share * part * nu / nu_a, (1 - share) * (1 - part) * nu / nu_b  # squared errors, if V = nu
    freedom = (of_a + of_b) ** 2 / (of_a**2 / nu_a + of_b**2 / nu_b)
    limit = stdtrit(freedom, 0.975) * np.sqrt(of_a + of_b)

    def power(errors: float) -> float:
        return float(1 - nctdtr(nu, errors, limit).mean())  # the other tail adds nothing

    low, high = 0.0, 4.0
    while power(high) < POWER and high < 1e3:
        low, high = high, 2 * high
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < POWER else (low, middle)
    return high
