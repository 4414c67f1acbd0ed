# SPDX-License-Identifier: BSD-2-Clause
"""Mean with its 95 % confidence interval, and percentiles, defined once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class Mean:
    """Mean of n values; half_width is t(0.975, n-1) * s / sqrt(n), None for a single observation."""

    value: float
    half_width: float | None
    n: int


def t_975(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, to 6 digits. scipy has it, and takes 0.4 s to import.

    With t = sqrt(freedom) tan(a), the density of the angle a is cos(a)**(freedom - 1).
    """
    if freedom > 2000:  # Cornish and Fisher's expansion about the normal quantile
        z = 1.959963984540054
        return z + (z**3 + z) / (4 * freedom)
    angle = np.linspace(0, np.pi / 2, 40_001)
    density = np.cos(angle) ** (freedom - 1)
    below = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return float(np.sqrt(freedom) * np.tan(np.interp(0.95, below / below[-1], angle)))


def mean_ci(values: Sequence[float] | npt.NDArray[np.float64]) -> Mean | None:
    """The mean and its 95 % half-width; None without values."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        return None
    if array.size == 1:
        return Mean(float(array[0]), None, 1)
    half = t_975(array.size - 1) * float(array.std(ddof=1)) / float(np.sqrt(array.size))
    return Mean(float(array.mean()), half, int(array.size))


LEAST_DIFFERENCE = 0.1
DIFFERENCE = (
    "means are said to differ if their 95 % intervals do not overlap and the means are at least 10 % of the"
    " first one apart (Bryant 2002)."
)


def differ(a: Mean, b: Mean) -> bool | None:
    """Do two means differ, by the rule above? None: one of them is a single observation."""
    if a.half_width is None or b.half_width is None:
        return None
    apart = abs(b.value - a.value)
    return apart > a.half_width + b.half_width and apart >= LEAST_DIFFERENCE * abs(a.value)


def percentiles(values: npt.NDArray[np.int64], percents: Sequence[float]) -> list[int]:
    """Nearest-rank percentiles: the smallest value with at least p % of the values at or below it.

    By partition, not by sort: three times faster on millions.
    """
    n = values.size
    ranks = np.clip(np.ceil(np.asarray(percents) / 100 * n - 1e-9).astype(np.int64), 1, n) - 1
    return [int(v) for v in np.partition(values, np.unique(ranks))[ranks]]
