# SPDX-License-Identifier: BSD-2-Clause
"""Batch means: an interval from within one run, where the batches are independent; else one value.

Neighbouring values of a series resemble each other: their spread says too little of the mean's error.
Means of long enough batches do not. Von Neumann's ratio tests that (vonneumann1941); while batches are
dependent, they double in length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.statistics import Mean, mean_ci
from analysis.measures.common.timeline import F64

FEWEST, MOST = 20, 30  # batches at first
LEAST = 10  # batches; with fewer the series is one value


@dataclass(frozen=True)
class Batches:
    """The means of independent batches; or the series' mean alone, and why."""

    means: tuple[float, ...]
    ratio: float | None  # von Neumann's, of the last batches tried
    why: str  # the series is one value; "": the batches are independent

    @property
    def mean(self) -> Mean | None:
        """Mean with its interval over the batches; without an interval for one value."""
        return mean_ci(self.means)


def von_neumann(values: F64) -> float | None:
    """Sum of squared steps over sum of squared deviations: about 2 if independent. None: nothing varies."""
    spread = float(((values - values.mean()) ** 2).sum()) if values.size else 0.0
    return float((np.diff(values) ** 2).sum()) / spread if spread > 0 else None


def least_ratio(count: int) -> float:
    """The limit of von Neumann's ratio: 5 % of independent normal values are below it."""
    return 2 - 3.29 * math.sqrt((count - 2) / (count**2 - 1))


def batch_means(series: Sequence[float] | F64) -> Batches | None:
    """Means of independent batches of a series, all of its values used; None without a value."""
    values = np.asarray(series, dtype=np.float64)
    n = values.size
    if not n:
        return None
    one = (float(values.mean()),)
    if n < LEAST:
        return Batches(one, None, f"{n} values: at least {LEAST} are needed")
    length = math.ceil(n / MOST)
    if n // length < FEWEST:  # 31 to 39 values
        length = max(length - 1, 1)
    count, ratio = n // length, None
    while count >= LEAST:
        means = np.array([part.mean() for part in np.array_split(values, count)])
        ratio = von_neumann(means)
        if ratio is None:
            return Batches(one, None, "the values do not vary")
        if ratio >= least_ratio(count):
            return Batches(tuple(map(float, means)), ratio, "")
        count //= 2
    return Batches(one, ratio, f"batches depend on each other, down to {2 * count} of them or fewer")
