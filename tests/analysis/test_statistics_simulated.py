# SPDX-License-Identifier: BSD-2-Clause
"""What the statistics promise, by simulation: coverage of intervals, false alarms, power, planted parameters.

Every generator has its seed, so that a test passes or fails for good. Limits leave at least four standard
errors of the simulated share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from scipy import stats

from analysis.measures.common.statistics import Interval, mean_ci
from analysis.measures.common.timeline import F64
from analysis.measures.statistics import batches, order, power_law, samples, stopping, usl, warm_up
from analysis.measures.statistics.differences import compare, errors_seen
from analysis.measures.statistics.holm import holm


def normal(mean: float, sd: float, draws: int, n: int, seed: int) -> F64:
    return np.random.default_rng(seed).normal(mean, sd, (draws, n))


def covered(intervals: Iterable[Interval | None], truth: float) -> float:
    """The share of the intervals that hold the truth."""
    return float(np.mean([i is not None and i.low - 1e-12 <= truth <= i.high + 1e-12 for i in intervals]))


@pytest.mark.parametrize("n", [3, 5, 10])
def test_interval_of_the_mean_covers_95_percent(n: int) -> None:
    draws = 5000 if n < samples.LEAST_BOOTSTRAP else 800  # with a bootstrap each
    found = [samples.describe(sample) for sample in normal(100, 10, draws, n, n)]
    share = covered((one.interval for one in found if one is not None), 100)
    assert 0.93 <= share <= 0.97


def test_bootstrap_of_ten_runs_covers_less_than_it_says() -> None:
    """90 % where it says 95 %: why it is not shown below ten runs, where it would cover 75 to 83 %."""
    share = covered((samples.bootstrap(sample) for sample in normal(100, 10, 800, 10, 1)), 100)
    print(f"the percentile bootstrap's 95 % interval of 10 runs covers {100 * share:.1f} %")
    assert 0.86 <= share <= 0.95


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("ratio", [1.0, 1.2])
def test_intervals_of_difference_and_ratio_cover_95_percent(n: int, ratio: float) -> None:
    draws = 2000
    first, other = normal(100, 10, draws, n, n), normal(100 * ratio, 10 * ratio, draws, n, 100 + n)
    found = [compare(a, b) for a, b in zip(first, other, strict=True)]
    assert 0.93 <= covered((d.ratio_interval for d in found if d), ratio) <= 0.97
    assert 0.93 <= covered((d.interval for d in found if d), 100 * (ratio - 1)) <= 0.97


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("sd", [2.0, 10.0])
def test_identical_configurations_rarely_differ(n: int, sd: float) -> None:
    """Five configurations against a first, all alike: by the rule, and by Welch with Holm, at most 5 %."""
    rule = welch = pairs = 0
    tables = 500
    for table in np.random.default_rng(n).normal(100, sd, (tables, 6, n)):
        found = [compare(table[0], other) for other in table[1:]]
        rule += sum(d is not None and d.rule is True for d in found)
        ps = holm([d.welch_p if d else None for d in found])
        welch += any(p is not None and p < 0.05 for p in ps)
        pairs += len(found)
    assert rule / pairs <= 0.05 and welch / tables <= 0.05


def test_rule_and_welch_find_a_real_difference() -> None:
    """+20 % at a spread of 10 % and ten runs: both find it in most tables, at three runs in few."""
    shares = {}
    for n in (3, 10):
        pairs = zip(normal(100, 10, 1000, n, 1), normal(120, 10, 1000, n, 2), strict=True)
        found = [d for d in (compare(a, b) for a, b in pairs) if d is not None]
        welch = float(np.mean([d.welch_p is not None and d.welch_p < 0.05 for d in found]))
        shares[n] = (float(np.mean([d.rule is True for d in found])), welch)
    assert shares[10][0] > 0.75 and shares[10][1] > 0.95
    assert shares[3][0] < 0.15 and 0.2 < shares[3][1] < 0.45


@pytest.mark.parametrize(
    ("n_a", "n_b", "sd_a", "sd_b"),
    [(2, 2, 1, 1), (3, 3, 1, 1), (5, 5, 1, 1), (10, 10, 1, 1), (3, 3, 1, 3), (3, 10, 1, 4), (10, 3, 1, 4)],
)
def test_difference_that_runs_could_have_seen_is_seen_in_80_percent(
    n_a: int, n_b: int, sd_a: float, sd_b: float
) -> None:
    variances = sd_a**2 / n_a, sd_b**2 / n_b
    apart = errors_seen(n_a, n_b, variances[0] / sum(variances)) * np.sqrt(sum(variances))
    a, b = normal(0, sd_a, 20_000, n_a, 3), normal(apart, sd_b, 20_000, n_b, 4)
    power = np.mean(stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05)
    assert power == pytest.approx(0.8, abs=0.013)


def test_stopping_from_ten_runs_on_keeps_the_coverage() -> None:
    """94 % when looked at from 10 runs on; looked at from 3 on, the interval covers 90 %."""

    def stopped(sample: F64, first: int) -> Interval:
        n = next((n for n in range(first, 60) if stopping.enough(sample[:n], 5)), 60)
        mean = mean_ci(sample[:n])
        assert mean is not None and mean.half_width is not None
        return Interval(mean.value - mean.half_width, mean.value + mean.half_width)

    assert 0.93 <= covered((stopped(s, 10) for s in normal(100, 10, 2500, 60, 5)), 100) <= 0.97
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopping, "LOOK_FROM", 3)
        assert covered((stopped(s, 3) for s in normal(100, 10, 2500, 60, 5)), 100) < 0.92


def noisy(truth: F64, seed: int, draws: int, noise: float = 0.05) -> F64:
    return np.asarray(truth * np.exp(np.random.default_rng(seed).normal(0, noise, (draws, truth.size))))


def law(n: F64, gamma: float, alpha: float, beta: float) -> F64:
    return np.asarray(gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1)))


def usl_coverage(
    counts: list[int], alpha: float, beta: float, draws: int
) -> tuple[list[float], float, float]:
    """Coverage of gamma, alpha, beta; then the share of draws with a peak, and its coverage."""
    n = np.repeat(np.array(counts, dtype=np.float64), 3)
    found = [usl.fit(n, x) for x in noisy(law(n, 1000, alpha, beta), 11, draws)]
    assert np.mean([one.fitted for one in found]) > 0.99
    each = [
        covered((one.gamma_interval for one in found), 1000),
        covered((one.alpha_interval for one in found), alpha),
        covered((one.beta_interval for one in found), beta),
    ]
    peaks = [one.peak_interval for one in found if one.peak is not None]
    inside = covered(peaks, float(np.sqrt((1 - alpha) / beta))) if peaks else float("nan")
    return each, len(peaks) / draws, inside


def test_usl_intervals_cover_planted_parameters() -> None:
    """5 % noise, three repetitions, six numbers of threads, a peak inside them."""
    each, with_peak, inside = usl_coverage([1, 2, 4, 8, 16, 32], 0.05, 0.004, 600)
    assert all(0.93 <= share <= 0.97 for share in each), each
    assert with_peak > 0.99 and 0.93 <= inside <= 0.98


@pytest.mark.long
@pytest.mark.parametrize("counts", [[1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 32], [1, 2, 3, 4, 6, 8]])
@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.02, 0.001), (0.05, 0.01), (0.3, 0.02), (0.1, 0.0), (0.0, 0.0)]
)
def test_usl_intervals_cover_on_a_grid(counts: list[int], alpha: float, beta: float) -> None:
    """At a bound of a parameter its interval covers more than 95 %."""
    each, with_peak, inside = usl_coverage(counts, alpha, beta, 2000)
    for share in each:
        assert share >= 0.93, each
    if alpha > 0.04 and beta > 0.005:
        assert max(each) <= 0.98
    # a peak near the last number of threads is rarely shown, and then often too low: but rarely in all
    assert with_peak == 0 or with_peak * (1 - inside) < 0.07


def test_power_law_interval_covers_the_planted_exponent() -> None:
    n = np.repeat([1.0, 2, 4, 8, 16], 3)
    found = [power_law.fit(n, y) for y in noisy(3 * n**0.7, 12, 3000)]
    assert 0.93 <= covered((one.b_interval for one in found if one), 0.7) <= 0.97
    assert np.mean([one.a for one in found if one]) == pytest.approx(3, rel=0.005)


def autoregressive(phi: float, draws: int, n: int, seed: int) -> F64:
    """Series whose values each keep phi of the value before."""
    steps = np.random.default_rng(seed).normal(size=(draws, n + 200))
    series = np.zeros_like(steps)
    for i in range(1, n + 200):
        series[:, i] = phi * series[:, i - 1] + steps[:, i]
    return series[:, 200:]


@pytest.mark.parametrize(("count", "power"), [(10, 0.33), (20, 0.63), (30, 0.82)])
def test_von_neumann_tells_dependent_batches(count: int, power: float) -> None:
    """5 % false alarms on white noise; the shares found at a lag-1 correlation of 0.5."""

    def alarms(series: F64) -> float:
        ratios = [batches.von_neumann(one) for one in series]
        return float(np.mean([r is not None and r < batches.least_ratio(count) for r in ratios]))

    assert alarms(normal(0, 1, 4000, count, 6)) == pytest.approx(0.05, abs=0.014)
    assert alarms(autoregressive(0.5, 4000, count, 7)) == pytest.approx(power, abs=0.04)


def test_batch_means_cover_the_mean_of_a_dependent_series() -> None:
    """The same interval over the values themselves covers half of the time."""
    for phi, least in ((0.0, 0.93), (0.5, 0.92)):
        series = 100 + autoregressive(phi, 1500, 600, 8)
        found = [b.mean for b in map(batches.batch_means, series) if b is not None and len(b.means) > 1]
        assert len(found) > 1400
        shares = [
            m is not None and m.half_width is not None and abs(m.value - 100) <= m.half_width for m in found
        ]
        assert least <= np.mean(shares) <= 0.97
    naive = [m for m in map(mean_ci, series) if m is not None and m.half_width is not None]
    assert np.mean([abs(m.value - 100) <= (m.half_width or 0) for m in naive]) < 0.8


def test_strongly_dependent_series_are_mostly_one_value() -> None:
    found = [b for b in map(batches.batch_means, autoregressive(0.99, 300, 600, 9)) if b is not None]
    assert np.mean([len(b.means) == 1 for b in found]) > 0.85


STEPS = np.arange(600)
Series = Callable[[np.random.Generator], F64]
SHAPES: dict[str, Series] = {
    "steady": lambda rng: 100 + rng.normal(0, 5, STEPS.size),
    "warm-up": lambda rng: 100 - 60 * np.exp(-STEPS / 40) + rng.normal(0, 5, STEPS.size),
    "step up": lambda rng: np.where(STEPS < 100, 50, 100) + rng.normal(0, 5, STEPS.size),
    "slowdown": lambda rng: np.where(STEPS < 400, 100, 60) + rng.normal(0, 5, STEPS.size),
    "decline": lambda rng: 100 - 40 * STEPS / STEPS.size + rng.normal(0, 5, STEPS.size),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_warm_up_is_cut_and_a_slowdown_is_refused(shape: str) -> None:
    rng = np.random.default_rng(10)
    found = [w for w in (warm_up.mser5(SHAPES[shape](rng)) for _ in range(300)) if w is not None]
    if shape in ("slowdown", "decline"):
        assert all(w.refused and w.mean_without is None and "second half" in w.why for w in found)
        return
    assert np.mean([w.refused for w in found]) < 0.03
    without = float(np.mean([w.mean_without for w in found if w.mean_without is not None]))
    assert without == pytest.approx(100, abs=0.5)
    cuts = np.percentile([w.cut for w in found], [5, 95])
    if shape == "steady":
        assert np.median([w.cut for w in found]) == 0 and cuts[1] < 60
    else:
        assert float(np.mean([w.mean_with for w in found])) < 97  # it is not averaged in
        assert cuts[0] >= 80 and cuts[1] <= 200


def sweep(change: float, draws: int, configurations: int, blocks: int, seed: int) -> F64:
    """p of sweeps in shuffled blocks, whose values change by this share from the first run to the last."""
    rng = np.random.default_rng(seed)
    means = np.array([100, 50, 200, 10, 80, 300, 20, 60])[:configurations]
    names = [f"c{i}" for i in range(configurations)] * blocks
    block_of = np.repeat(np.arange(blocks), configurations)
    ps = []
    for _ in range(draws):
        place = np.concatenate([b * configurations + rng.permutation(configurations) for b in range(blocks)])
        drifted = np.tile(means, blocks) * (1 + change * place / place.size)
        drift = order.drift(
            drifted * (1 + rng.normal(0, 0.05, place.size)), names, block_of.tolist(), place.tolist()
        )
        assert drift.p is not None
        ps.append(drift.p)
    return np.array(ps)


@pytest.mark.parametrize(("configurations", "blocks"), [(8, 3), (4, 5)])
def test_drift_is_not_reported_without_drift(configurations: int, blocks: int) -> None:
    ps = sweep(0.0, 600, configurations, blocks, 13)
    assert np.mean(ps < order.SURE) <= 0.06
    assert stats.kstest(ps, "uniform").pvalue > 0.01


def test_drift_is_reported_when_planted() -> None:
    assert np.mean(sweep(0.6, 150, 8, 3, 14) < order.SURE) > 0.7
    assert np.mean(sweep(-0.5, 150, 8, 3, 15) < order.SURE) > 0.7
