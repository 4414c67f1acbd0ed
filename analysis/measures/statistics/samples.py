# SPDX-License-Identifier: BSD-2-Clause
"""Repetitions of one figure: mean, median, spread, intervals, single points and outliers.

The unit is the run: one value per run. Nothing is dropped: outliers are marked, and stay in every figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.statistics import Interval, Mean, mean_ci
from analysis.measures.common.timeline import F64

LEAST_BOOTSTRAP = 10  # runs; at 3 the percentile bootstrap's 95 % interval covers 75 %
MOST_POINTS = 5  # up to so many runs, all values are shown
RESAMPLES = 10_000
SEED = 1979  # of the bootstrap: the same values give the same interval
FENCE = 3.0  # interquartile ranges beyond the quartiles: "far out" (tukey1977)


@dataclass(frozen=True)
class Description:
    """Figures of n values, in the values' unit."""

    n: int
    mean: float
    median: float
    sd: float | None  # standard deviation, n - 1; None for a single value
    interval: Interval | None  # 95 % of the mean, by Student's t; None for a single value
    bootstrap: Interval | None  # 95 % of the mean, by percentiles of resamples; None below LEAST_BOOTSTRAP
    why_no_bootstrap: str
    points: tuple[float, ...]  # all values up to MOST_POINTS of them, else none
    outliers: tuple[int, ...]  # indexes of values more than FENCE interquartile ranges from the quartiles
    not_finite: int  # values left out, as they are no finite numbers

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of the mean."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def as_mean(self) -> Mean:
        """The mean with its half-width."""
        return Mean(self.mean, self.half_width, self.n)


def describe(values: Sequence[float] | F64) -> Description | None:
    """The description; None without a finite value. `outliers` index the values as given."""
    given = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(given)
    array = given[finite]
    mean = mean_ci(array)
    if mean is None:
        return None
    half, n = mean.half_width, mean.n
    return Description(
        n=n,
        mean=mean.value,
        median=float(np.median(array)),
        sd=float(array.std(ddof=1)) if n > 1 else None,
        interval=None if half is None else Interval(mean.value - half, mean.value + half),
        bootstrap=bootstrap(array),
        why_no_bootstrap="" if n >= LEAST_BOOTSTRAP else f"{n} runs: at least {LEAST_BOOTSTRAP} are needed",
        points=tuple(map(float, array)) if n <= MOST_POINTS else (),
        outliers=tuple(int(i) for i in np.flatnonzero(finite)[is_outlier(array)]),
        not_finite=int(given.size - n),
    )


def bootstrap(values: F64) -> Interval | None:
    """The 95 % percentile bootstrap interval of the mean; None below LEAST_BOOTSTRAP values (efron1993)."""
    if values.size < LEAST_BOOTSTRAP:
        return None
    rng = np.random.default_rng(SEED)
    step = max(1, 1_000_000 // values.size)  # resamples at a time, so that memory stays small
    means = [
        rng.choice(values, (min(step, RESAMPLES - done), values.size)).mean(axis=1)
        for done in range(0, RESAMPLES, step)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return Interval(float(low), float(high))


def is_outlier(values: F64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which values lie more than FENCE interquartile ranges outside the quartiles (tukey1977)."""
    low, high = np.percentile(values, [25, 75])
    reach = FENCE * (high - low)
    return np.asarray((values < low - reach) | (values > high + reach))
