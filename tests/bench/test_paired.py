# SPDX-License-Identifier: BSD-2-Clause
"""The paired measurement of make bench finds a known cost on a machine whose speed drifts and jumps."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from statistics import mean

import numpy as np
import pytest
from scipy.stats import bootstrap

from tests.bench import block, locks, paired
from tests.bench.paired import CONTROL, Counts, Edge, Interval, Window, interval, measure, pairs, table
from workloads.system.errors import MachineError, RunError

BASE_RATE = 280_000.0
CPUS_NS = 2e9  # of two busy CPUs, a second
TRUTH = {"none at all": 1.0, "cheap": 0.97, "dear": 0.35}


def moody_machine(random: np.random.Generator, count: int) -> np.ndarray:
    """Return a machine's speed in each window: trend, random walk, jump, noise, moments of other work."""
    trend = np.linspace(0, random.uniform(-0.3, 0.3), count)
    walk = np.cumsum(random.normal(0, 0.01, count))
    jump = np.where(np.arange(count) > random.integers(count), random.uniform(-0.3, 0.3), 0)
    noise = random.normal(0, 0.02, count)
    other_work = np.where(random.random(count) < 0.05, np.log(0.6), 0)
    return np.asarray(BASE_RATE * np.exp(trend + walk + jump + noise + other_work))


def simulate(random: np.random.Generator, truth: Mapping[str, float], rounds: int) -> list[Window]:
    """Return the windows of one bench: tracers in random order, an untraced window between any two."""
    order = [name for _ in range(rounds) for name in random.permutation(list(truth))]
    names = ["", *itertools.chain.from_iterable((name, "") for name in order)]
    speeds = moody_machine(random, len(names)) * [truth.get(name, 1.0) for name in names]
    return [Window(name, rate, CPUS_NS / rate) for name, rate in zip(names, speeds, strict=True)]


def test_interval_covers_true_ratio() -> None:
    generator = np.random.default_rng(11)
    covered, widths = dict.fromkeys(TRUTH, 0), []
    runs = 800
    for _ in range(runs):
        found = pairs(simulate(generator, TRUTH, block.ROUNDS))
        for name, ratio in TRUTH.items():
            one = interval([pair.speed for pair in found[name]])
            covered[name] += one.low <= ratio <= one.high
            widths.append((one.high - one.low) / ratio)
    assert sum(covered.values()) / len(covered) / runs >= 0.93, covered
    assert min(covered.values()) / runs >= 0.92, covered
    assert mean(widths) < 0.05, "the intervals are too wide to be useful"


def test_drift_fools_fixed_order_and_not_pairs() -> None:
    """The machine gains 1 % per window; each round runs without a tracer, then with each of three."""
    truth = {"first": 0.98, "second": 0.98, "third": 0.98}
    gain = 1.01
    speed = [BASE_RATE * gain**i for i in range(200)]
    rounds = [speed[i : i + 4] for i in range(0, 40, 4)]
    naive = mean(third * 0.98 for _, _, _, third in rounds) / mean(none for none, *_ in rounds)
    assert naive > 1.005, "the fixed order makes a tracer look like a gain"
    names = ["", *itertools.chain.from_iterable((name, "") for _ in range(10) for name in truth)]
    windows = [Window(name, rate * truth.get(name, 1), 1) for name, rate in zip(names, speed, strict=False)]
    for found in pairs(windows).values():
        one = interval([pair.speed for pair in found])
        assert one.low == pytest.approx(0.98) == one.high


def test_pairs_of_known_windows_have_known_ratios() -> None:
    windows = [
        Window("", 80, 10),
        Window("a", 90, 25),
        Window("", 125, 20),
        Window("b", 50, 30),
        Window("", 80, 40),
        Window("", 100, 10),  # after a failed window
        Window("a", 40, 9),
        Window("", 16, 10),
    ]
    found = pairs(windows)
    assert [pair.speed for pair in found["a"]] == pytest.approx([0.9, 1.0])  # √(80·125) = 100, √(100·16) = 40
    assert [pair.cpu_ns for pair in found["a"]] == [10, -1]
    assert [pair.speed for pair in found["b"]] == pytest.approx([0.5])
    assert [pair.cpu_ns for pair in found["b"]] == [0]


@pytest.mark.parametrize("count", sorted({block.ROUNDS, locks.ROUNDS}))
def test_interval_equals_the_bootstrap_interval(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    drawn = bootstrap(
        (values,), np.median, n_resamples=99_999, method="percentile", batch=10_000, rng=1
    ).confidence_interval
    assert interval(list(values)) == Interval(float(np.median(values)), drawn.low, drawn.high)


@pytest.mark.parametrize("count", [6, 7, 17, 20])
def test_interval_covers_the_median_in_95_pct(count: int) -> None:
    """For a skewed distribution."""
    drawn = np.random.default_rng(count).exponential(size=(2000, count)) ** 3
    held = [interval(list(values)).holds(math.log(2) ** 3) for values in drawn]
    assert mean(held) > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 2000)


def test_few_windows_have_no_interval() -> None:
    one = interval([0.9, 0.91, 0.92, 0.93, 0.94])
    assert one.median == 0.92
    assert math.isnan(one.low)
    assert math.isnan(one.high)


def load() -> int:
    """Return a count that grows by a million per second."""
    return time.monotonic_ns() // 1000


@contextmanager
def counting() -> Iterator[Counts]:
    counts = Counts()
    yield counts
    counts.add(Counts(seen=100, lost=3))


@contextmanager
def dying() -> Iterator[Counts]:
    yield Counts(seen=1, lost=1)
    raise RunError("dying ended early: for a test")


def missing() -> AbstractContextManager[Counts]:
    raise MachineError("missing is not installed: for a test")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "SETTLE_S", 0.0)
    monkeypatch.setattr(paired, "START_S", 0.0)


def test_failed_windows_are_counted_and_shown() -> None:
    tracers = {"counting": counting, "dying": dying, "missing": missing}
    result = measure("test", load, tracers, rounds=6, window_s=0.01)
    found = pairs(result.windows)
    assert {name: len(both) for name, both in found.items()} == {CONTROL: 6, "counting": 6}
    text = table(result, "request")
    assert f"| {CONTROL} | " in text
    assert " | 3 % (18 of 600) | 6 |" in text
    for name, why in (("dying", "ended early"), ("missing", "is not installed")):
        assert f"| {name} | not measured | not measured |  | 0, 6 more failed |" in text
        assert f"{name}: 6 windows failed: {name} {why}: for a test" in text


def test_window_of_known_counters_has_known_rates() -> None:
    start, end = Edge(10**9, 100, 5 * 10**9, 10**9), Edge(3 * 10**9, 1100, 8 * 10**9, 2 * 10**9)
    window = Window.between("a", start, end)
    assert (window.tracer, window.rate, window.cpu_ns) == ("a", 500, 3e6)  # 1000 operations: 2 s, 3 s of CPU
    assert window.stolen_pct == 50 / (os.cpu_count() or 1)
    assert paired.busy_pct(start, end) == 150 / (os.cpu_count() or 1)


def test_cpu_time_excludes_idle_iowait_and_steal() -> None:
    """In proc(5): user nice system idle iowait irq softirq steal guest guest_nice; guest is in user."""
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    text = "cpu  1 20 300 4000 50000 600000 7000000 80000000 1 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
    assert paired.busy_and_stolen_ns(text) == (7_600_321 * tick_ns, 80_000_000 * tick_ns)


def test_stopped_load_ends_the_bench() -> None:
    with pytest.raises(RunError, match="the load stands still"):
        measure("test", lambda: 7, {}, rounds=1, window_s=0.01)
    left = iter(range(1, 4))

    def ending() -> int:
        try:
            return next(left)
        except StopIteration:
            raise RunError("the load ended early") from None

    with pytest.raises(RunError, match="the load ended early"):
        measure("test", ending, {}, rounds=1, window_s=0.01)


def test_table_marks_tracers_equal_to_no_tracer() -> None:
    generator = np.random.default_rng(5)
    windows = simulate(generator, {CONTROL: 1.0, "dear": 0.35}, rounds=17)
    names = (CONTROL, "dear")
    result = paired.Result(windows, {name: Counts() for name in names}, {name: [] for name in names})
    rows = {line.split(" | ")[0]: line for line in table(result, "request").splitlines() if " | " in line}
    assert rows[f"| {CONTROL}"].count("`=`") == 2
    assert "`=`" not in rows["| dear"]
    assert "does not hold 1" not in table(result, "request")
