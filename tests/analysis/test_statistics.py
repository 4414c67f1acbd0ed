# SPDX-License-Identifier: BSD-2-Clause
"""Statistics of repeated runs against scipy, numpy and arithmetic by hand."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from analysis.measures.common.statistics import t_975
from analysis.measures.common.timeline import F64
from analysis.measures.statistics import batches, order, power_law, ranks, samples, stopping, usl, warm_up
from analysis.measures.statistics.differences import compare
from analysis.measures.statistics.holm import holm

TREE = Path(__file__).resolve().parents[2]
values = st.lists(st.integers(10, 10_000).map(lambda n: n / 10), min_size=2, max_size=12)


@given(st.integers(1, 5000) | st.floats(1, 5000))
def test_students_t_equals_scipys_distribution(freedom: float) -> None:
    assert t_975(freedom) == pytest.approx(float(stats.t.ppf(0.975, freedom)), rel=1e-9)


def test_base_statistics_import_no_scipy_stats() -> None:
    """`make report` starts with them: scipy.stats and scipy.optimize take a third of a second."""
    code = (
        "import sys; import analysis.units;"
        " from analysis.measures.statistics import differences, order, samples;"
        " print([m for m in ('scipy.stats', 'scipy.optimize') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=TREE, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(values)
def test_description_equals_numpy_and_scipy(sample: list[float]) -> None:
    found = samples.describe(sample)
    assert found is not None and found.interval is not None
    assert (found.n, found.mean, found.median) == pytest.approx(
        (len(sample), np.mean(sample), np.median(sample))
    )
    assert found.sd == pytest.approx(np.std(sample, ddof=1))
    if found.sd:
        error = stats.sem(sample)
        proper = stats.t.interval(0.95, len(sample) - 1, loc=np.mean(sample), scale=error)
        assert (found.interval.low, found.interval.high) == pytest.approx(proper)
    assert found.points == (tuple(sample) if len(sample) <= 5 else ())
    q1, q3 = np.percentile(sample, [25, 75])
    far = [i for i, v in enumerate(sample) if v < q1 - 3 * (q3 - q1) or v > q3 + 3 * (q3 - q1)]
    assert found.outliers == tuple(far)


def test_outlier_is_named_and_stays_in_the_mean() -> None:
    found = samples.describe([10, 11, math.nan, 10, 12, 11, 100, math.inf])
    assert found is not None
    assert found.outliers == (6,)  # as given, with the NaN before it
    assert found.mean == pytest.approx(154 / 6) and found.n == 6 and found.not_finite == 2
    assert samples.describe([math.nan]) is None


def test_single_run_has_no_interval_and_no_spread() -> None:
    found = samples.describe([3.0])
    assert found is not None
    assert [found.interval, found.sd, found.bootstrap, found.half_width] == [None] * 4
    assert found.points == (3.0,) and not found.outliers


def test_bootstrap_is_refused_below_ten_runs() -> None:
    nine, ten = samples.describe(range(9)), samples.describe(range(10))
    assert nine is not None and ten is not None
    assert nine.bootstrap is None and nine.why_no_bootstrap == "9 runs: at least 10 are needed"
    assert ten.bootstrap is not None and ten.why_no_bootstrap == ""


def test_bootstrap_equals_scipys() -> None:
    sample = np.random.default_rng(4).lognormal(3, 0.5, 25)
    found = samples.bootstrap(sample)
    proper = stats.bootstrap((sample,), np.mean, method="percentile", n_resamples=20_000, rng=1)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(proper.confidence_interval, rel=0.01)
    assert found == samples.bootstrap(sample)  # the same data, the same interval


@settings(deadline=None)
@given(values, values)
def test_comparison_equals_scipys_welch_test(a: list[float], b: list[float]) -> None:
    found = compare(a, b)
    assert found is not None
    if np.std(a) + np.std(b) < 1e-3:
        assert found.welch_p is None or found.welch_p < 1e-6 or np.mean(a) == np.mean(b)
        return
    proper = stats.ttest_ind(b, a, equal_var=False)
    assert found.welch_p == pytest.approx(float(proper.pvalue), rel=1e-6, abs=1e-12)
    assert found.ratio == pytest.approx(np.mean(b) / np.mean(a))
    apart = abs(np.mean(a) - np.mean(b))
    halves = sum(stats.t.ppf(0.975, len(x) - 1) * stats.sem(x) for x in (a, b))
    if abs(apart - halves) > 1e-6 and abs(apart - 0.1 * np.mean(a)) > 1e-6:
        assert found.rule == (apart > halves and apart >= 0.1 * np.mean(a))


def test_runs_without_spread_have_no_p() -> None:
    found = compare([5, 5, 5], [8, 8, 8])
    assert found is not None
    assert found.welch_p is found.seen_pct is None and found.rule is True and found.ratio == 1.6
    single = compare([5.0], [8.0, 9.0])
    assert single is not None
    assert [single.rule, single.welch_p, single.seen_pct, single.ratio_interval] == [None] * 4
    assert compare([], [1.0]) is None


def test_ratio_to_a_mean_that_may_be_zero_has_no_interval() -> None:
    """Fieller's interval is unbounded where the first mean is not significantly different from 0."""
    found = compare([1.0, -0.9, 0.2], [5.0, 5.1, 5.2])
    assert found is not None and found.ratio_interval is None and found.ratio is not None
    zero = compare([-1.0, 1.0], [5.0, 5.1])
    assert zero is not None and zero.ratio is zero.seen_pct is None


def test_holm_equals_the_correction_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.01, None, 0.9, 0.6]) == [
        0.03,
        None,
        1.0,
        1.0,
    ]  # 3 tests: 3 p, 2 p, and no less than before
    assert holm([]) == [] and holm([None]) == [None]


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=40))
def test_ties_share_a_rank(sample: list[int]) -> None:
    assert ranks.ranks(np.array(sample, dtype=np.float64)) == pytest.approx(stats.rankdata(sample))


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=30))
def test_rank_correlations_equal_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    found = ranks.agreement(x, y)
    same = sum((a - c) * (b - d) > 0 for i, (a, b) in enumerate(pairs) for c, d in pairs[:i])
    opposite = sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(pairs) for c, d in pairs[:i])
    assert (found.same, found.opposite, found.pairs) == (same, opposite, len(pairs) * (len(pairs) - 1) // 2)
    if np.ptp(x) and np.ptp(y):
        assert found.tau == pytest.approx(float(stats.kendalltau(x, y).statistic))
        assert ranks.spearman(x, y) == pytest.approx(float(stats.spearmanr(x, y).statistic))
    else:
        assert found.tau is None and ranks.spearman(x, y) == 0


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 8, 64]), st.floats(1e-6, 1e9)), min_size=3, max_size=12
    ).filter(lambda points: len({t for t, _ in points}) > 2)
)
def test_exponent_and_interval_equal_numpy_and_scipy(points: list[tuple[int, float]]) -> None:
    xs = [*(t for t, _ in points), 5, 6]
    found = power_law.fit(xs, [*(v for _, v in points), 0.0, None])
    assert found is not None and found.b_interval is not None
    x, y = np.log([t for t, _ in points]), np.log([v for _, v in points])
    proper = stats.linregress(x, y)
    assert found.b == pytest.approx(proper.slope, abs=1e-6)
    assert found.a == pytest.approx(math.exp(proper.intercept), rel=1e-6)
    assert found.points == len(points) and found.left_out == 2
    assert found.per_doubling == pytest.approx(2**found.b)
    left = np.sum((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2) / (len(points) - 2)
    half = float(stats.t.ppf(0.975, len(points) - 2) * np.sqrt(left / np.sum((x - x.mean()) ** 2)))
    assert found.half_width == pytest.approx(half, rel=1e-3, abs=1e-6)
    if found.r2_log is not None and np.ptp(y) > 1e-3:
        assert found.r2_log == pytest.approx(proper.rvalue**2, abs=1e-6)


def test_power_law_needs_two_x_and_an_interval_three() -> None:
    assert power_law.fit([1, 2], [0.0, 4.0]) is None
    assert power_law.fit([2, 2, 1], [1.0, 4.0, None]) is None
    two = power_law.fit([1, 2], [3.0, 6.0])
    assert two is not None and two.b_interval is None and (two.a, two.b) == pytest.approx((3, 1))


def test_r2_differs_between_the_scales() -> None:
    """A straight line in logarithms that says little of the largest values themselves."""
    x = np.array([1.0, 2, 4, 8, 16, 32])
    y = x**2 * np.array([1, 1.5, 0.7, 1.2, 2.0, 0.5])
    found = power_law.fit(x, y)
    assert found is not None and found.r2_log is not None and found.r2_linear is not None
    fitted = found.at(x)
    assert found.r2_linear == pytest.approx(1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    assert found.r2_log > 0.95 and found.r2_linear < 0.3


def law(n: F64, gamma: float, alpha: float, beta: float) -> F64:
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


THREADS = np.repeat([1.0, 2, 4, 8, 16, 32], 3)


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.05, 0.002), (0.3, 0.0), (0.0, 0.001), (0.0, 0.0), (0.9, 0.0), (0.5, 0.05)]
)
def test_usl_without_noise_gives_the_parameters_back(alpha: float, beta: float) -> None:
    found = usl.fit(THREADS, law(THREADS, 1234.5, alpha, beta))
    assert found.fitted and (found.gamma, found.alpha, found.beta) == pytest.approx(
        (1234.5, alpha, beta), rel=1e-4, abs=1e-7
    )
    assert np.abs(found.residuals).max() < 1e-5


@pytest.mark.parametrize(("alpha", "beta", "seed"), [(0.05, 0.002, 1), (0.02, 0.0005, 2), (0.2, 0.01, 3)])
def test_usl_and_its_intervals_equal_scipys_profile(alpha: float, beta: float, seed: int) -> None:
    """Best fit by least_squares. At an end of an interval the others, fitted anew, reach the limit."""
    rng = np.random.default_rng(seed)
    x = law(THREADS, 500, alpha, beta) * np.exp(rng.normal(0, 0.05, THREADS.size))
    found = usl.fit(THREADS, x)
    bounds = ([-np.inf, 0, 0], [np.inf, 1, np.inf])

    def errors(log_gamma: float, a: float, b: float) -> F64:
        return np.log(x) - np.log(law(THREADS, math.exp(log_gamma), a, b))

    def all_errors(p: F64) -> F64:
        return errors(*p)

    best = optimize.least_squares(all_errors, [6, 0.1, 0.003], bounds=bounds, xtol=1e-12, ftol=1e-12)
    assert (math.log(found.gamma), found.alpha, found.beta) == pytest.approx(
        tuple(best.x), rel=1e-3, abs=1e-6
    )
    least, freedom = 2 * best.cost, THREADS.size - 3
    limit = least * (1 + float(stats.f.ppf(0.95, 1, freedom)) / freedom)

    def above(value: float, which: int) -> float:
        rest = [i for i in range(3) if i != which]

        def partly(p: F64) -> F64:
            full = np.empty(3)
            full[which], full[rest] = value, p
            return errors(*full)

        start = np.clip(best.x[rest], 1e-6, None)
        inner = optimize.least_squares(partly, start, bounds=tuple(np.array(bounds)[:, rest]), xtol=1e-12)
        return 2 * float(inner.cost) - limit

    gamma = found.gamma_interval
    intervals = (
        (math.log(gamma.low), math.log(gamma.high)),
        (found.alpha_interval.low, found.alpha_interval.high),
        (found.beta_interval.low, found.beta_interval.high),
    )
    for which, (low, high) in enumerate(intervals):
        width = high - low
        for end in (low, high):
            if which and end == 0:
                assert above(0.0, which) <= 1e-6  # the bound itself is allowed
                continue
            away = (end - best.x[which]) * 1.02
            near = (end - best.x[which]) * 0.98
            assert above(best.x[which] + away, which) > 0 > above(best.x[which] + near, which), (which, width)


def test_usl_needs_five_numbers_of_threads() -> None:
    found = usl.fit([1, 2, 4, 8] * 3, [1, 2, 3, 4] * 3)
    assert not found.fitted and found.why == "4 numbers of threads: at least 5 are needed"
    assert usl.fit([1, 2, 3, 4, 5], [1, 2, 0, 4, 5]).why.startswith("a throughput is not above 0")
    assert "between 1 and 1,000,000" in usl.fit([0.5, 2, 3, 4, 5], [1, 2, 1, 4, 5]).why
    assert not usl.fit([1e300, 2, 3, 4, 5], [1, 2, 1, 4, 5]).fitted


def test_usl_is_no_fit_where_throughput_grows_faster_than_threads() -> None:
    found = usl.fit(THREADS, THREADS**1.5 * np.tile([0.98, 1.0, 1.02], 6))
    assert not found.fitted and "the law" in found.why and found.peak is None
    assert found.residuals  # shown all the same
    steps = usl.fit(THREADS, np.where(THREADS < 8, 100 * THREADS, 10.0) * np.tile([0.98, 1.0, 1.02], 6))
    assert not steps.fitted and steps.why


def test_usl_has_a_peak_only_inside_what_was_measured() -> None:
    noise = np.tile([0.97, 1.0, 1.03], 6)
    inside = usl.fit(THREADS, law(THREADS, 100, 0.05, 0.01) * noise)  # peak at 9.7
    assert inside.peak == pytest.approx(math.sqrt(0.95 / 0.01), rel=0.1)
    assert inside.peak_interval is not None and inside.peak_interval.low < 9.75 < inside.peak_interval.high
    beyond = usl.fit(THREADS, law(THREADS, 100, 0.05, 0.0003) * noise)  # peak at 56
    assert beyond.fitted and beyond.peak is None and beyond.why_no_peak
    none = usl.fit(THREADS, law(THREADS, 100, 0.2, 0) * noise)
    assert none.peak is None and none.why_no_peak == "throughput may grow without a peak: beta may be 0"


def test_von_neumanns_ratio_equals_the_one_by_hand() -> None:
    assert batches.von_neumann(np.array([1.0, 3.0, 2.0])) == pytest.approx((4 + 1) / 2)
    assert batches.von_neumann(np.array([2.0, 2.0])) is None
    assert [round(batches.least_ratio(k), 2) for k in (10, 20, 30)] == [1.06, 1.3, 1.42]


@given(st.integers(10, 500))
def test_batches_hold_every_value_once(n: int) -> None:
    series = np.random.default_rng(n).normal(size=n)
    found = batches.batch_means(series)
    assert found is not None
    k = len(found.means)
    assert k == 1 or k >= 10
    assert n < 40 or k <= 30
    if k > 1:
        sizes = [len(part) for part in np.array_split(series, k)]
        assert sum(sizes) == n and np.average(found.means, weights=sizes) == pytest.approx(series.mean())
        assert found.mean is not None and found.mean.n == k


def test_short_constant_or_dependent_series_is_one_value() -> None:
    short, constant = batches.batch_means([1.0, 2.0, 4.0]), batches.batch_means([7.0] * 50)
    ramp = batches.batch_means(np.arange(1000.0))
    assert short is not None and constant is not None and ramp is not None
    assert short.means == pytest.approx((7 / 3,)) and short.why == "3 values: at least 10 are needed"
    assert constant.means == (7.0,) and constant.why == "the values do not vary"
    assert ramp.means == pytest.approx((499.5,)) and ramp.why.startswith("batches depend on each other")
    assert ramp.mean is not None and ramp.mean.half_width is None
    assert batches.batch_means([]) is None


def test_warm_up_equals_the_plain_definition() -> None:
    """MSER-5: of all cuts, the one whose rest has the smallest variance of its mean."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        series = 100 - 50 * np.exp(-np.arange(203) / 20) + rng.normal(0, 5, 203)
        means = [series[i : i + 5].mean() for i in range(0, 200, 5)]
        errors = [np.var(means[d:]) / (len(means) - d) for d in range(len(means) - 4)]
        found = warm_up.mser5(series)
        assert found is not None and found.cut == 5 * int(np.argmin(errors))
        assert found.mean_with == pytest.approx(series.mean())
        assert found.refused == (found.cut > 100)
        assert found.mean_without == (None if found.refused else pytest.approx(series[found.cut :].mean()))


def test_warm_up_of_a_short_series_is_refused() -> None:
    found = warm_up.mser5(np.ones(49))
    assert found is not None and found.refused and found.mean_without is None
    assert found.why == "49 values: at least 50 are needed" and found.mean_with == 1
    assert warm_up.mser5([]) is None


def test_stopping_looks_from_ten_runs_on() -> None:
    alike = [100.0, 101.0] * 10
    assert [n for n in range(21) if stopping.enough(alike[:n], 5.0)] == list(range(10, 21))
    half = stats.t.ppf(0.975, 9) * stats.sem([100.0, 120.0] * 5) / 110 * 100
    assert stopping.enough([100.0, 120.0] * 5, half + 1e-6)
    assert not stopping.enough([100.0, 120.0] * 5, half - 1e-6)


def test_drift_equals_all_permutations_by_hand() -> None:
    """Two blocks of three runs: 36 orders, of which p is the share with a slope as steep."""
    configurations, blocks = ["a", "b", "c", "b", "c", "a"], [1, 1, 1, 2, 2, 2]
    measured = np.array([10.0, 21.0, 33.0, 20.5, 35.0, 12.0])
    found = order.drift(measured, configurations, blocks, range(6))
    relative = order.residuals(measured, configurations)
    by_name = {"a": 11.0, "b": 20.75, "c": 34.0}
    assert relative == pytest.approx(
        [v / by_name[c] - 1 for v, c in zip(measured, configurations, strict=True)]
    )
    steps = [np.array([*p, *q]) for p in _orders([-1.0, 0.0, 1.0]) for q in _orders([-1.0, 0.0, 1.0])]
    slopes = np.array([s @ relative for s in steps])
    own = np.array([-1.0, 0, 1, -1, 0, 1]) @ relative
    share = np.mean(np.abs(slopes) >= abs(own) - 1e-12)
    assert found.p == pytest.approx(share, abs=0.02)
    assert found.per_run_pct == pytest.approx(100 * own / 4)


def _orders(items: list[float]) -> list[list[float]]:
    return [[*first, x] for x in items for first in _orders([i for i in items if i != x])] or [[]]


def test_p_of_a_certain_drift_is_the_least_that_permutations_can_give() -> None:
    blocks = np.repeat(np.arange(6), 6).tolist()
    names = [f"c{(i + block) % 6}" for block in range(6) for i in range(6)]
    found = order.drift(100 + 10 * np.tile(np.arange(6.0), 6), names, blocks, range(36))
    assert found.p == 1 / 5000 and found.is_sure


def test_drift_without_blocks_of_two_has_no_p() -> None:
    alone = order.drift([1.0, 2.0, 3.0], ["a"] * 3, [1, 2, 3], [1, 2, 3])
    assert alone.p is None and alone.why == "no block has two configurations with repetitions"
    once = order.drift([1.0, 2.0, math.nan], ["a", "b", "a"], [1, 1, 2], [1, 2, 3])
    assert once.p is None and once.why
    constant = order.drift([1.0, 2.0, 2.0, 1.0], ["a", "b", "b", "a"], [1, 1, 2, 2], [1, 2, 3, 4])
    assert constant.p is None and constant.why == "the values do not vary" and not constant.is_sure
    assert order.drift([], [], [], []).p is None


figures = st.floats(-1e99, 1e99) | st.sampled_from([0.0, 5e-324, 1e-300, 1.0, 1e99])


@settings(deadline=None)
@given(st.lists(figures, max_size=12), st.lists(figures, max_size=12), st.randoms(use_true_random=False))
def test_no_value_of_a_sweep_makes_a_statistic_fail(a: list[float], b: list[float], random: Any) -> None:
    """Of any figures that a reader passes on, without a warning of numpy."""
    threads = [float(random.choice([1, 2, 3, 4, 8, 16, 1_000_000])) for _ in a]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples.describe([*a, math.nan, math.inf])
        compare(a, b)
        batches.batch_means(np.repeat(a, 9))
        warm_up.mser5(np.repeat(a, 9))
        stopping.enough(a, 5.0)
        power_law.fit(threads, a)
        usl.fit(threads, a)
        ranks.agreement(a, sorted(a))
        order.drift(a, [str(i % 3) for i in range(len(a))], [i // 3 for i in range(len(a))], range(len(a)))
