# SPDX-License-Identifier: BSD-2-Clause
"""Correlation of a series with application throughput, over time bins. Association, not cause.

Per time bin, Spearman's rank correlation between application throughput and another series, at every lag
of up to LAGS bins either way; the lag with the strongest one is shown. Neighbouring bins resemble each
other, and the best of many lags is picked: an ordinary p would be too small. Instead:

p: the other series is shifted round in a circle by every amount that leaves the lags searched; each
   shift keeps both series' own rhythm and breaks their link, and gets the same search for its best lag.
   p = (1 + shifts whose best is at least as strong) / (1 + shifts), then Holm's step-down correction over
   the series compared. p is at least 1 / (1 + shifts); a series whose p cannot reach SURE with that
   correction gets no coefficient.
interval: Fisher's z with the effective number of bins, n / (1 + 2 sum (1 - k/n) r_x(k) r_y(k)) over k < n/4
   (Bayley and Hammersley 1946 for two series), for the lag shown; it does not allow for the search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.statistics.holm import holm
from analysis.measures.statistics.ranks import ranks, spearman, standard

LAGS = 5
NORMAL_975 = 1.959963984540054
LEAST_BINS = 30
MOST_ALIKE = 0.5  # share of bins of one value, say of no bytes: with more, rho tells of when there was any
SURE = 0.05  # largest p of a series called correlated; its 95 % interval must also leave out 0
DEFINITION = (
    "rho: Spearman's rank correlation of the series with application throughput, over time bins; a positive"
    " lag means that the series follows the application. p: share of circular shifts of the series that"
    " correlate at least as well (which allows for the rhythm of each series and for the search over lags),"
    " Holm-corrected over the series; <=: no shift correlates as well, p is at its minimum."
    f" correlated: p at most {SURE:g}, and the interval excludes 0. Association, not cause."
)


@dataclass(frozen=True)
class Correlation:
    """One series against application throughput; why_not: the reason for a missing coefficient."""

    name: str
    bins: int
    rho: float | None = None
    lag_bins: int = 0
    low: float | None = None  # 95 % interval
    high: float | None = None
    effective_bins: float | None = None
    p: float | None = None
    rho_now: float | None = None  # at lag 0
    p_floor: float | None = None  # the smallest p that its shifts can give, as p is corrected
    why_not: str = ""

    @property
    def at_floor(self) -> bool:
        """Whether p is the smallest that the shifts allow: no shift did as well."""
        return self.p is not None and self.p_floor is not None and self.p <= self.p_floor * (1 + 1e-9)

    @property
    def sure(self) -> bool:
        """Whether p is at most SURE and the interval leaves out 0."""
        if self.low is None or self.high is None or self.p is None:
            return False
        return self.p <= SURE and not self.low <= 0 <= self.high


def at_lag(x: F64, y: F64, lag: int) -> float:
    """rho of x now with y `lag` bins later, over the bins both have."""
    if lag > 0:
        return spearman(x[:-lag], y[lag:])
    if lag < 0:
        return spearman(x[-lag:], y[:lag])
    return spearman(x, y)


def _autocorrelation(values: F64, most: int) -> F64:
    """Autocorrelation at lags 1..most."""
    z = standard(values)
    n = z.size
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(z, size)
    return np.fft.irfft(spectrum * np.conj(spectrum), size)[1 : most + 1]


def effective_bins(x: F64, y: F64) -> float:
    """Effective number of independent bins of the pair, between 4 and n."""
    n = x.size
    most = max(n // 4, 1)
    product = _autocorrelation(x, most) * _autocorrelation(y, most)
    k = np.arange(1, most + 1)
    inflation = 1 + 2 * float(((1 - k / n) * product).sum())
    return float(np.clip(n / max(inflation, 1.0), 4.0, n))


def floor_of_p(bins: int, lags: int) -> float:
    """The smallest p that circular_p() can give."""
    return 1 / (1 + max(bins - 4 * lags - 1, 0))


def circular_p(x: F64, y: F64, lags: int) -> float:
    """Share of circular shifts whose best lag does as well as the best lag of the pair itself."""
    n = x.size
    a, b = standard(ranks(x)), standard(ranks(y))
    # c[s] = sum_t a[t] b[t + s]: rho at every circular shift s, at once
    c = np.abs(np.fft.irfft(np.conj(np.fft.rfft(a)) * np.fft.rfft(b), n))
    window = np.stack([np.roll(c, lag) for lag in range(-lags, lags + 1)]).max(axis=0)
    others = window[2 * lags + 1 : n - 2 * lags]
    return float((1 + np.count_nonzero(others >= window[0] - 1e-12)) / (1 + others.size))


def correlate(name: str, application: F64, other: F64, lags: int = LAGS) -> Correlation:
    """Correlate one series. Unknown bins (NaN) at the ends are cut off; above 10 % inside, no coefficient."""
    good = np.isfinite(application) & np.isfinite(other)
    inside = np.flatnonzero(good)
    if not inside.size:
        return Correlation(name, 0, why_not="no data")
    x, y = application[inside[0] : inside[-1] + 1], other[inside[0] : inside[-1] + 1]
    n = int(x.size)
    if inside.size < n:
        gaps = n - int(inside.size)
        if gaps > n // 10:
            return Correlation(name, n, why_not=f"{gaps} of {n} bins have no value")
        at = np.arange(n)
        has_both = np.isfinite(x) & np.isfinite(y)
        x, y = np.interp(at, at[has_both], x[has_both]), np.interp(at, at[has_both], y[has_both])
    if n < LEAST_BINS:
        return Correlation(name, n, why_not=f"too few bins ({n}, at least {LEAST_BINS} are needed)")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(
            name, n, why_not="does not vary" if np.ptp(y) == 0 else "the application does not vary"
        )
    for whose, values in (("the application", x), ("it", y)):
        alike = int(np.unique(values, return_counts=True)[1].max())
        if alike > MOST_ALIKE * n:
            return Correlation(name, n, why_not=f"{whose} has the same value in {alike} of {n} bins")
    rhos = {lag: at_lag(x, y, lag) for lag in range(-lags, lags + 1)}
    best = max(sorted(rhos, key=abs), key=lambda lag: abs(rhos[lag]))
    rho = rhos[best]
    effective = effective_bins(ranks(x), ranks(y))
    half = NORMAL_975 / math.sqrt(max(effective - 3, 1.0))
    z = math.atanh(max(min(rho, 0.999999), -0.999999))
    return Correlation(
        name=name,
        bins=n,
        rho=rho,
        lag_bins=best,
        low=math.tanh(z - half),
        high=math.tanh(z + half),
        effective_bins=effective,
        p=circular_p(x, y, lags),
        rho_now=rhos[0],
        p_floor=floor_of_p(n, lags),
    )


def meaningful(correlations: list[Correlation]) -> list[Correlation]:
    """The series with Holm's correction of p; too short series lose their coefficient."""
    series = sum(c.p is not None for c in correlations)
    return _holm([_figure_or_why_not(c, series) for c in correlations])


def _figure_or_why_not(c: Correlation, series: int) -> Correlation:
    if c.p is None or c.p_floor is None or c.p_floor * series <= SURE:
        return c
    why_not = f"too few bins ({c.bins}: p could not be below {c.p_floor * series:.2g})"
    return Correlation(c.name, c.bins, why_not=why_not)


def _holm(correlations: list[Correlation]) -> list[Correlation]:
    """Holm's correction of the p values for having compared several series."""
    corrected = holm([c.p for c in correlations])
    return [c if p is None else _corrected(c, p) for c, p in zip(correlations, corrected, strict=True)]


def _corrected(c: Correlation, p: float) -> Correlation:
    """The series with this p; its floor grows by the same factor, so a p at its floor stays there."""
    assert c.p is not None
    floor = None if c.p_floor is None else c.p_floor * p / c.p
    return replace(c, p=p, p_floor=floor)
