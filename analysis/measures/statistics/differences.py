# SPDX-License-Identifier: BSD-2-Clause
"""Two sets of runs, compared in one figure: the paper's rule, Welch's test, the ratio, and what n could see.

The word "differ" belongs to the paper's rule (bryant2002). Welch's p stands beside it; p of all figures that
one table shows are corrected together, by holm().
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtrinc, stdtr

from analysis.measures.common.statistics import (
    Interval,
    Mean,
    differ,
    difference_interval,
    mean_ci,
    ratio_interval,
    t_975,
    welch_freedom,
)
from analysis.measures.common.timeline import F64

POWER = 0.8
SEEN = (
    "these runs see: the smallest difference, relative to the first mean, that Welch's test finds at 5 % in"
    " 80 % of such comparisons, with the spread seen here (noncentral t)"
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
    return math.hypot(a.half_width / t_975(a.n - 1), b.half_width / t_975(b.n - 1)) or None


def welch_p(a: Mean, b: Mean) -> float | None:
    """Two-sided p of equal means at unequal variances (welch)."""
    error = _error(a, b)
    if error is None:
        return None
    return float(2 * stdtr(welch_freedom(a, b), -abs(b.value - a.value) / error))


def seen_pct(a: Mean, b: Mean) -> float | None:
    """The smallest difference that so many runs see with POWER, in percent of the first mean; see SEEN.

    Under a difference of d standard errors, Welch's statistic has about the noncentral t distribution.
    """
    error = _error(a, b)
    if error is None or not a.value:
        return None
    freedom = welch_freedom(a, b)
    errors = float(nctdtrinc(freedom, 1 - POWER, t_975(freedom)))
    return 100 * errors * error / abs(a.value) if np.isfinite(errors) else None
