# SPDX-License-Identifier: BSD-2-Clause
"""Throughput that falls over a phase is found with the seconds it cost; noise, in any order, is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.findings import steady
from analysis.findings.rule import Case
from analysis.measures.common.timeline import F64
from analysis.measures.statistics.trend import trend
from tests.analysis.cpu_cases import case_of, on_cpu, spec_of
from tests.analysis.synthetic import BIN_NS, START_NS, run_json

BINS = 200
FALL = np.linspace(1.4, 0.6, BINS)


def _noise(seed: int, coefficient: float, spread: float = 0.15) -> F64:
    rng = np.random.default_rng(seed)
    drive = rng.normal(size=BINS + 100) * np.sqrt(1 - coefficient**2)
    values = np.zeros(BINS + 100)
    for i in range(1, BINS + 100):
        values[i] = coefficient * values[i - 1] + drive[i]
    return spread * values[100:]


def _case(folder: Path, rates: F64, phase: str = "") -> Case:
    spec = spec_of(on_cpu(1, 1000))
    spec.run = run_json(BINS / 10 + 0.2) | {"words": spec.run["words"]}
    begin = START_NS + BIN_NS
    spec.run["clock"] |= {
        "workload_start_ns": begin,
        "workload_end_ns": begin + BINS * BIN_NS,
    }
    spec.call = [
        {
            "bin_ns": begin + i * BIN_NS,
            "call": "write",
            "target": "target",
            "bytes": max(round(10_000_000 * rate), 0),
        }
        for i, rate in enumerate(rates)
    ]
    if phase:
        spec.phases = [{"name": phase, "start_ns": begin, "end_ns": begin + BINS * BIN_NS}]
    return case_of(folder, spec)


def test_falling_throughput_costs_seconds(tmp_path: Path) -> None:
    rates = FALL + _noise(1, 0.3, 0.05)
    (finding,) = steady.find(_case(tmp_path / "r", rates, "create"))
    first = rates[: BINS // 5].mean()
    assert finding.cost.value_s == pytest.approx(BINS / 10 - rates.sum() / 10 / first, rel=1e-3)
    assert finding.cost.low_s < finding.cost.value_s < finding.cost.high_s
    assert "fell in the phase create from 131 MB/s" in finding.what
    assert finding.where.phases == ("create",)


def test_warming_up_is_found_too(tmp_path: Path) -> None:
    (finding,) = steady.find(_case(tmp_path / "r", FALL[::-1] + _noise(2, 0.3, 0.05)))
    assert finding.what.startswith("Throughput rose from")


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_time_has_no_trend(tmp_path: Path, seed: int) -> None:
    rates = np.random.default_rng(seed).permutation(FALL + _noise(seed, 0.3))
    assert not steady.find(_case(tmp_path / "r", rates))


def test_level_throughput_is_none(tmp_path: Path) -> None:
    assert not steady.find(_case(tmp_path / "r", 1 + _noise(3, 0.8)))


@pytest.mark.parametrize("coefficient", [0.0, 0.5, 0.8])
def test_noise_seldom_looks_like_a_trend(coefficient: float) -> None:
    """p is uniform without a trend: of 40 series 4 or more below .01 come once in 1,500 such tests."""
    found = [trend(1 + _noise(seed, coefficient)) for seed in range(40)]
    ps = [one.p for one in found if one is not None and one.p is not None]
    assert len(ps) == 40
    assert sum(p <= 0.01 for p in ps) <= 3
    assert 0.25 < float(np.median(ps)) < 0.75


def test_short_series_has_no_verdict() -> None:
    found = trend(FALL[:50])
    assert found is not None and found.p is None and "at least 100" in found.why
    assert trend([]) is None
    level = trend(np.ones(200))
    assert level is not None and level.p == 1.0
