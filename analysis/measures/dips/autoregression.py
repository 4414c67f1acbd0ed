# SPDX-License-Identifier: BSD-2-Clause
"""Autoregressive models of many series at once: order by AIC, and what they say of the spread of means.

Estimated by Yule and Walker's equations (Levinson's recursion). Short series look less alike from bin to bin
than they are; Kendall's correction adds (1 + 3 s) / n to the sum s of the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.statistics.recursion import driven_series

ORDERS = 10
SUM_MOST = 0.985  # nearer to 1 the spread of means has no bound
LAGS = 512  # of the covariances, which come from the spectrum: 0.985^512 is 0.0004
BURN_IN = 250  # values of a simulated series that are thrown away


@dataclass(frozen=True)
class Models:
    """One model a series. coefficients: series x ORDERS. variance: of what drives it."""

    coefficients: F64
    variance: F64

    @property
    def sums(self) -> F64:
        """Sum of each model's coefficients: 0 of noise, near 1 of a series that drifts."""
        return np.asarray(self.coefficients.sum(axis=1))

    def mean_variances(self, most: int) -> F64:
        """Variance of the mean of 1..most neighbouring values: series x most."""
        polynomial = np.concatenate((np.ones((self.variance.size, 1)), -self.coefficients), axis=1)
        gain = np.abs(np.fft.rfft(polynomial, 2 * LAGS, axis=1)) ** 2
        covariance = np.fft.irfft(self.variance[:, None] / gain, 2 * LAGS, axis=1)[:, :LAGS]
        if most > LAGS:
            covariance = np.pad(covariance, ((0, 0), (0, most - LAGS)))
        lags = np.arange(most)
        # sum over |k| < L of (1 - |k| / L) cov(k), over L
        both = np.where(lags > 0, 2.0, 1.0) * covariance[:, :most]
        plain, by_lag = np.cumsum(both, axis=1), np.cumsum(both * lags, axis=1)
        length = lags + 1.0
        return np.asarray(np.maximum((plain - by_lag / length) / length, 1e-300))


def fit(x: F64) -> Models:
    """A model of each row of x."""
    series, n = x.shape
    x = x - x.mean(axis=1, keepdims=True)
    orders = min(ORDERS, n // 4)
    cov = np.stack([np.einsum("st,st->s", x[:, k:], x[:, : n - k]) / n for k in range(orders + 1)], axis=1)
    spread = np.maximum(cov[:, 0], 1e-300)
    phi = np.zeros((series, ORDERS))
    variance, best_phi, best_variance = spread.copy(), phi.copy(), spread.copy()
    least = n * np.log(variance)
    for p in range(1, orders + 1):
        reflection = (cov[:, p] - np.einsum("sk,sk->s", phi[:, : p - 1], cov[:, p - 1 : 0 : -1])) / variance
        new = phi.copy()
        new[:, : p - 1] = phi[:, : p - 1] - reflection[:, None] * phi[:, : p - 1][:, ::-1]
        new[:, p - 1] = reflection
        phi, variance = new, np.maximum(variance * (1 - reflection**2), spread * 1e-12)
        aic = n * np.log(variance) + 2 * p
        better = aic < least
        least = np.where(better, aic, least)
        best_phi[better], best_variance[better] = phi[better], variance[better]
    best_phi[:, 0] += (1 + 3 * best_phi.sum(axis=1)) / n
    total = best_phi.sum(axis=1)
    over = total > SUM_MOST
    best_phi[over] *= (SUM_MOST / total[over])[:, None]
    return Models(best_phi, best_variance)


def residuals(x: F64, models: Models) -> F64:
    """What drives the one series x under its model, around 0."""
    filter_ = np.concatenate(([1.0], -models.coefficients[0]))
    driven = np.convolve(x - x.mean(), filter_)[ORDERS : x.size]
    return np.asarray(driven - driven.mean())


def simulate(models: Models, driven_by: F64, series: int, n: int, random: np.random.Generator) -> F64:
    """Series of the one model, driven by draws of `driven_by`: series x n."""
    draws = driven_by[random.integers(0, driven_by.size, (series, n + BURN_IN))]
    return driven_series(draws, models.coefficients[0])[:, BURN_IN:]
