# SPDX-License-Identifier: BSD-2-Clause
"""The Universal Scalability Law: throughput X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)) (usl).

gamma is the throughput of one thread; alpha the share of work done by one thread at a time (contention); beta
the cost of keeping each pair of threads coherent. With beta above 0, throughput has a peak.
Least squares of log X over all repetitions, gamma > 0, 0 <= alpha <= 1, beta >= 0. Intervals are by profile:
the range of a parameter over all fits whose sum of squares is at most that of the best fit by the factor that
F(1, n - 3) allows at 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import fdtrc

from analysis.measures.common.statistics import LEAST_DIFFERENCE, Interval, t_975
from analysis.measures.common.timeline import F64

LEAST_COUNTS = 5  # different N
MOST_THREADS = 1_000_000
LEAST_X = 1e-100  # throughput between this and 1 / this: no sum of squares overflows
DIRECTIONS = 240  # in which the border of the profile is looked for
UNSURE = 0.05  # p of the lack of fit below which the law is not what the repetitions show


UNKNOWN = Interval(math.nan, math.nan)


@dataclass(frozen=True)
class Usl:
    """A fit, or why there is none. Intervals are 95 % ones; an end that data does not bound is infinite."""

    fitted: bool
    why: str  # no fit
    gamma: float = math.nan  # in the unit of X
    alpha: float = math.nan
    beta: float = math.nan
    gamma_interval: Interval = UNKNOWN
    alpha_interval: Interval = UNKNOWN
    beta_interval: Interval = UNKNOWN
    peak: float | None = None  # N of the highest throughput; None: see why_no_peak
    peak_interval: Interval | None = None
    why_no_peak: str = ""
    residuals: tuple[float, ...] = ()  # log of measured over fitted X, in the order given
    points: int = 0

    def at(self, n: F64) -> F64:
        """The law's throughput at each N."""
        return np.asarray(self.gamma * n / _below(n, self.alpha, self.beta))


def _below(n: F64, alpha: float | F64, beta: float | F64) -> F64:
    return 1 + alpha * (n - 1) + beta * n * (n - 1)


def fit(n: Sequence[float] | F64, x: Sequence[float] | F64) -> Usl:
    """The fit of throughput x at n threads, one point per run."""
    ns, xs = np.asarray(n, dtype=np.float64), np.asarray(x, dtype=np.float64)
    counts = np.unique(ns)
    if counts.size < LEAST_COUNTS:
        return Usl(False, f"{counts.size} numbers of threads: at least {LEAST_COUNTS} are needed")
    if not ((xs > LEAST_X).all() and (xs < 1 / LEAST_X).all()):
        return Usl(False, "a throughput is not above 0, or no number")
    if not ((ns >= 1).all() and (ns <= MOST_THREADS).all()):
        return Usl(False, f"a number of threads is not between 1 and {MOST_THREADS:,}")
    best = _least_squares(ns, xs)
    if best is None:
        return Usl(False, "throughput falls from the first thread on: no throughput of one thread fits")
    gamma, alpha, beta = best
    residuals = np.log(xs / (gamma * ns / _below(ns, alpha, beta)))
    region = _region(ns, xs, alpha, beta)
    peak, peak_interval, why_no_peak = _peak(alpha, beta, region, counts)
    why = _lack_of_fit(ns, residuals)
    return Usl(
        fitted=not why,
        why=why,
        gamma=gamma,
        alpha=alpha,
        beta=beta,
        gamma_interval=region.gamma,
        alpha_interval=region.alpha,
        beta_interval=region.beta,
        peak=None if why else peak,
        peak_interval=None if why else peak_interval,
        why_no_peak=why_no_peak,
        residuals=tuple(map(float, residuals)),
        points=int(ns.size),
    )


def _least_squares(n: F64, x: F64) -> tuple[float, float, float] | None:
    """gamma, alpha, beta of the best fit; None: gamma would be infinite.

    N / X is a sum s + c N + d N (N - 1) with s, c, d >= 0: gamma = 1 / (s + c), alpha = c / (s + c), beta =
    d / (s + c), and the bounds of alpha and beta hold by themselves. Gauss-Newton steps on its logarithm.
    """
    scale = float(np.exp(np.log(n / x).mean()))
    y = n / x / scale
    columns = np.stack([np.ones_like(n), n, n * (n - 1)], axis=1)
    widths = columns.max(axis=0)
    columns = columns / widths

    def squares(c: F64) -> float:
        sums = columns @ c
        return float((np.log(y / sums) ** 2).sum()) if (sums > 0).all() else math.inf

    now = nnls(columns / y[:, None], np.ones_like(y))[0]  # least squares of relative errors
    least = squares(now)
    if not math.isfinite(least):
        return None
    for _ in range(100):
        sums = columns @ now
        step = nnls(columns / sums[:, None], np.log(y / sums) + 1)[0] - now
        part = 1.0
        while part > 1e-6 and squares(now + part * step) > least:
            part /= 2
        after = squares(now + part * step)
        if not after < least * (1 - 1e-12):
            break
        now, least = now + part * step, after
    s, c, d = now / widths
    if s + c <= 0:
        return None
    return float(1 / (s + c) / scale), float(c / (s + c)), float(d / (s + c))


@dataclass(frozen=True)
class _Region:
    """Ranges over all (alpha, beta) that the data allow."""

    gamma: Interval
    alpha: Interval
    beta: Interval
    peak: Interval  # N of the peak; infinite where beta may be 0


def _region(n: F64, x: F64, alpha: float, beta: float) -> _Region:
    """The region of (alpha, beta) within the limit: its border in every direction from the best fit.

    For each (alpha, beta) the best gamma is known. Directions are those of a circle, in the coordinates of
    the sum of squares' quadratic form, in which the region is nearly a circle.
    """
    log_y = np.log(x / n)

    def squares(a: F64, b: F64) -> tuple[F64, F64]:
        """Sum of squares and log gamma of each pair."""
        errors = log_y + np.log(_below(n, np.clip(a, 0, 1)[..., None], np.clip(b, 0, None)[..., None]))
        log_gamma = errors.mean(axis=-1)
        return ((errors - log_gamma[..., None]) ** 2).sum(axis=-1), log_gamma

    least = float(squares(np.array([alpha]), np.array([beta]))[0][0])
    freedom = n.size - 3
    limit = least * (1 + t_975(freedom) ** 2 / freedom)  # F(1, m) is the square of t(m)
    slopes = np.stack([n - 1, n * (n - 1)], axis=1) / _below(n, alpha, beta)[:, None]
    slopes = slopes - slopes.mean(axis=0)
    # of a circle of the expected radius; columns of the inverse of the triangular root of the quadratic form
    form = slopes.T @ slopes
    axes = np.linalg.inv(np.linalg.cholesky(form + 1e-12 * np.diag(np.diag(form)))).T
    axes = axes * math.sqrt(max(limit - least, 1e-24))
    angles = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ axes.T
    # along the bounds, where the best fit often lies
    rays = np.concatenate([rays, [[1, 0], [-1, 0], [0, 1], [0, -1]] * np.abs(axes).max(axis=1)])
    far = _to_the_bounds(rays, alpha, beta)
    low, high = np.zeros(len(rays)), far.copy()
    for _ in range(40):
        middle = (low + high) / 2
        inside = squares(alpha + middle * rays[:, 0], beta + middle * rays[:, 1])[0] <= limit
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    a = np.clip(alpha + low * rays[:, 0], 0, 1)
    b = np.clip(beta + low * rays[:, 1], 0, None)
    unbounded = bool((b > 0.99 * MOST_BETA).any())
    # inside the region gamma has room beyond the best one of each pair
    inner = np.linspace(0, 1, 17)[:, None]
    inner_a, inner_b = alpha + inner * (a - alpha), beta + inner * (b - beta)
    inner_squares, inner_gamma = squares(inner_a, inner_b)
    room = np.sqrt(np.maximum(limit - inner_squares, 0) / n.size)
    with np.errstate(divide="ignore", over="ignore"):
        peaks = np.sqrt(np.where(b > 1e-12, (1 - a) / np.maximum(b, 1e-300), np.inf))
        gammas = np.exp([(inner_gamma - room).min(), (inner_gamma + room).max()])
    return _Region(
        gamma=Interval(float(gammas[0]), math.inf if unbounded else float(gammas[1])),
        alpha=Interval(float(a.min()), float(a.max())),
        beta=Interval(float(b.min()), math.inf if unbounded else float(b.max())),
        peak=Interval(0.0 if unbounded else float(peaks.min()), float(peaks.max())),
    )


MOST_BETA = 100.0  # far beyond any fit: two threads would do a hundredth of the work of one


def _to_the_bounds(rays: F64, alpha: float, beta: float) -> F64:
    """How often each ray fits between the best fit and the bounds of alpha and beta."""
    with np.errstate(divide="ignore", invalid="ignore"):
        to_alpha = np.where(rays[:, 0] > 0, (1 - alpha) / rays[:, 0], -alpha / rays[:, 0])
        to_beta = np.where(rays[:, 1] > 0, (MOST_BETA - beta) / rays[:, 1], -beta / rays[:, 1])
    to_alpha[rays[:, 0] == 0] = np.inf
    to_beta[rays[:, 1] == 0] = np.inf
    return np.asarray(np.minimum(to_alpha, to_beta))


def _peak(
    alpha: float, beta: float, region: _Region, counts: F64
) -> tuple[float | None, Interval | None, str]:
    """N of the highest throughput and its interval, inside what was measured; or why there is none."""
    low, high = region.peak.low, region.peak.high
    if not math.isfinite(high):
        return None, None, "throughput may grow without a peak: beta may be 0"
    if low < counts.min() or high > counts.max():
        return (
            None,
            None,
            (
                f"the peak's interval, {low:.3g} to {high:.3g}, is not inside what was measured,"
                f" {counts.min():g} to {counts.max():g}"
            ),
        )
    return math.sqrt((1 - alpha) / beta), region.peak, ""


def _lack_of_fit(n: F64, residuals: F64) -> str:
    """Why the law does not describe the means; "" if it does.

    No fit: the mean at one N is off by LEAST_DIFFERENCE, and more so than the repetitions' spread explains.
    """
    counts, index, runs = np.unique(n, return_inverse=True, return_counts=True)
    means = np.bincount(index, weights=residuals) / runs
    worst = int(np.argmax(np.abs(means)))
    off = math.expm1(float(means[worst]))
    if abs(off) < LEAST_DIFFERENCE:
        return ""
    pure, pure_freedom = float(((residuals - means[index]) ** 2).sum()), n.size - counts.size
    if pure_freedom and pure > 0:
        lack = float((runs * means**2).sum()) / (counts.size - 3)
        if fdtrc(counts.size - 3, pure_freedom, lack / (pure / pure_freedom)) >= UNSURE:
            return ""
    return f"at {counts[worst]:g} threads throughput is {100 * abs(off):.0f} % " + (
        "above the law" if off > 0 else "below the law"
    )
