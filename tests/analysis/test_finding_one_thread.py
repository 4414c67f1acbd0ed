# SPDX-License-Identifier: BSD-2-Clause
"""Unused parallelism is found where CPUs were idle beside one thread and more threads can be asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.findings import one_thread
from analysis.findings.rule import Case
from analysis.measures.cpu.idle import beside
from tests.analysis.cpu_cases import case_of, idle, on_cpu, path_of, share, spec_of


def _case(folder: Path, cpus_idle: float, threads: int | None = 1, **words: str) -> Case:
    spec = spec_of(on_cpu(1, 10_000), counter=idle(cpus_idle))
    spec.run["workload"]["threads"] = threads
    spec.run["words"] |= words
    case = case_of(folder, spec)
    ran = {"own CPU": np.ones(case.results.timeline.bins)}
    path = path_of([share(10.0)], over_time=ran)
    return case_of(folder.with_name("with-path"), spec, path)


def test_idle_cpu_beside_one_thread(tmp_path: Path) -> None:
    (finding,) = one_thread.find(_case(tmp_path / "r", 1.0))
    assert finding.cost.value_s == pytest.approx(10.0, rel=0.02)
    assert finding.remedy is not None and finding.remedy.words == {"THREADS": "2"}
    assert finding.remedy.saved.value_s == pytest.approx(5.0, rel=0.03)
    assert finding.remedy.saved.low_s == 0.0


def test_busy_cpus(tmp_path: Path) -> None:
    assert not one_thread.find(_case(tmp_path / "r", 0.005))


@pytest.mark.parametrize(("threads", "words"), [(None, {}), (1, {"CPUS": "1"})])
def test_nothing_that_anybody_could_change(
    tmp_path: Path, threads: int | None, words: dict[str, str]
) -> None:
    assert not one_thread.find(_case(tmp_path / "r", 1.0, threads, **words))


def test_users_own_command_is_found_without_remedy(tmp_path: Path) -> None:
    (finding,) = one_thread.find(_case(tmp_path / "r", 1.0, None, CMD="tar x"))
    assert finding.remedy is None and finding.test.startswith("with 2 threads or processes at once")


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20),
)
def test_limits_hold_whatever_happened_within_bins(cpus: int, bins: list[tuple[float, float]]) -> None:
    """ran, and how far the other CPUs were idle meanwhile; while it does not run all are idle."""
    ran = np.array([one for one, _ in bins])
    free = np.array([one for _, one in bins])
    at_once = ran * free * (cpus - 1)
    found = beside(ran, at_once + (1 - ran) * cpus, cpus, np.ones(ran.size))
    true_s = float((ran * free).sum()) if cpus > 1 else 0.0  # with all the others idle at once
    assert found.low_s <= true_s + 1e-6
    assert found.high_s >= true_s - 1e-6
    assert 0 <= found.spread_s <= found.ran_s + 1e-9
