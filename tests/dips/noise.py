# SPDX-License-Identifier: BSD-2-Clause
"""Series of throughput without a dip, of several rhythms, and a dip to put into one. Their CV is 15 %."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.signal import lfilter

from analysis.measures.common.timeline import F64

CV = 0.15
WARM_UP = 500


def autoregressive(phi: float, n: int, random: np.random.Generator) -> F64:
    """Normal noise of variance 1 whose neighbours correlate by phi."""
    driven = random.standard_normal(n + WARM_UP) * np.sqrt(1 - phi * phi)
    return np.asarray(lfilter([1.0], [1.0, -phi], driven)[WARM_UP:])


def _plain(phi: float) -> Callable[[int, np.random.Generator], F64]:
    return lambda n, random: 1 + CV * autoregressive(phi, n, random)


def _burst(n: int, random: np.random.Generator) -> F64:
    """Lognormal, with bursts upward and stops of one or two bins: 1 bin in 50 each."""
    x = np.asarray(np.exp(CV * autoregressive(0.5, n, random)), dtype=np.float64)
    for start in np.flatnonzero(random.random(n) < 0.02):
        x[start : start + int(random.integers(1, 4))] *= random.uniform(1.5, 3)
    for start in np.flatnonzero(random.random(n) < 0.02):
        x[start : start + int(random.integers(1, 3))] = 0
    return x


def _slow(n: int, random: np.random.Generator) -> F64:
    """Noise with a slow drift, which has 30 % of the variance."""
    slow = np.sqrt(0.3) * autoregressive(0.95, n, random)
    return np.asarray(1 + CV * (np.sqrt(0.7) * autoregressive(0.4, n, random) + slow))


KINDS: Mapping[str, Callable[[int, np.random.Generator], F64]] = {
    "phi 0": _plain(0),
    "phi .5": _plain(0.5),
    "phi .8": _plain(0.8),
    "burst": _burst,
    "slow": _slow,
}


def series(kind: str, n: int, random: np.random.Generator) -> F64:
    """A series without a dip, as bytes per second."""
    return np.maximum(KINDS[kind](n, random), 0) * 1e8


def with_dip(rate: F64, depth: float, share: float, random: np.random.Generator) -> tuple[F64, int, int]:
    """The series with a dip anywhere but at the ends, and its bins."""
    length = max(1, round(rate.size * share))
    first = int(random.integers(length, rate.size - 2 * length))
    rate = rate.copy()
    rate[first : first + length] *= 1 - depth
    return rate, first, first + length
