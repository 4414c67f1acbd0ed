# SPDX-License-Identifier: BSD-2-Clause
"""A trend a x^b by least squares in logarithms, with R2 on both scales and the interval of b.

R2 in logarithms, which spreadsheets print, is often high where the trend says little about the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.statistics import Interval, t_975
from analysis.measures.common.timeline import F64


@dataclass(frozen=True)
class PowerLaw:
    """y = a x^b."""

    a: float
    b: float
    b_interval: Interval | None  # 95 %; None: values at only two different x
    r2_log: float | None  # share of the variance of log y; None: y does not vary
    r2_linear: float | None  # share of the variance of y, below 0 if a mean is nearer; None: y does not vary
    points: int  # observations used: those above 0
    counts: int  # different x among them
    left_out: int  # observations not used

    @property
    def half_width(self) -> float | None:
        """Half of b's interval."""
        return None if self.b_interval is None else (self.b_interval.high - self.b_interval.low) / 2

    @property
    def per_doubling(self) -> float:
        """Factor on y when x doubles."""
        return 2.0**self.b if abs(self.b) < 1000 else math.inf

    def at(self, x: F64) -> F64:
        """The trend at each x."""
        return np.asarray(self.a * x**self.b)


def fit(x: Sequence[float] | F64, y: Sequence[float | None] | F64) -> PowerLaw | None:
    """The trend, all repetitions as points of their own; None without values above 0 at two x at least."""
    given_x, given_y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    usable = np.isfinite(given_x) & np.isfinite(given_y) & (given_x > 0) & (given_y > 0)
    xs, ys = given_x[usable], given_y[usable]
    counts = int(np.unique(xs).size)
    if counts < 2:
        return None
    u, v = np.log(xs), np.log(ys)
    sxx = float(((u - u.mean()) ** 2).sum())
    b = float((u - u.mean()) @ (v - v.mean())) / sxx
    log_a = float(v.mean() - b * u.mean())
    residual = float(((v - log_a - b * u) ** 2).sum())
    interval = None
    if counts > 2:
        half = t_975(xs.size - 2) * math.sqrt(residual / (xs.size - 2) / sxx)
        interval = Interval(b - half, b + half)
    with np.errstate(over="ignore"):
        linear = float(((ys - np.exp(log_a + b * u)) ** 2).sum())
    return PowerLaw(
        a=math.exp(log_a) if log_a < 700 else math.inf,
        b=b,
        b_interval=interval,
        r2_log=_r2(residual, v),
        r2_linear=_r2(linear, ys),
        points=int(xs.size),
        counts=counts,
        left_out=int(given_x.size - xs.size),
    )


def _r2(residual: float, values: F64) -> float | None:
    spread = float(((values - values.mean()) ** 2).sum())
    return 1 - residual / spread if spread > 0 else None
