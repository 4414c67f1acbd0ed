# SPDX-License-Identifier: BSD-2-Clause
"""Mean with its 95 % confidence interval, and percentiles, defined once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class Mean:
    """Mean of n values; half_width is t(0.975, n-1) * s / sqrt(n), None for a single observation."""

    value: float
    half_width: float | None
    n: int


def mean_ci(values: Sequence[float] | npt.NDArray[np.float64]) -> Mean | None:
    """The mean and its 95 % half-width; None without values."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        return None
    if array.size == 1:
        return Mean(float(array[0]), None, 1)
    half = float(stdtrit(array.size - 1, 0.975)) * float(array.std(ddof=1)) / float(np.sqrt(array.size))
    return Mean(float(array.mean()), half, int(array.size))


def percentiles_sorted(ordered: npt.NDArray[np.int64], percents: Sequence[float]) -> list[int]:
    """Nearest-rank percentiles (the smallest value with at least p % at or below it) of sorted values."""
    n = ordered.size
    ranks = np.ceil(np.asarray(percents) / 100 * n - 1e-9).astype(np.int64)
    return [int(v) for v in ordered[np.clip(ranks, 1, n) - 1]]
