# SPDX-License-Identifier: BSD-2-Clause
"""A limit on CPU time is found by waits that end in step with a period, and only then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.findings import cpu_quota, cpu_taken
from analysis.findings.rule import Case
from analysis.measures.cpu.quota import in_step
from analysis.measures.ledger import measure_ledger
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis import test_critical_path as made
from tests.analysis.schedules import Schedule

WALL_MS = 3000


def _case(folder: Path, runs_ms: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> Case:
    """The application runs from each first to each second moment; between them it is ready."""
    monkeypatch.setattr(made, "LENGTH_MS", WALL_MS)
    schedule = Schedule()
    for begin, end in runs_ms:
        schedule.switch(begin, 0, made.APP, cpu=0)
        schedule.switch(end, made.APP, 0, cpu=0, state="preempted")
    run = open_run(made.write(folder, schedule))
    tables = load_tables(run)
    results = measure(run, tables)
    return Case(run, tables, results, measure_ledger(results.path, results.threads, results.window.work_s))


def test_twenty_of_each_hundred_milliseconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [(begin, begin + 20) for begin in range(0, WALL_MS, 100)]
    case = _case(tmp_path / "r", runs, monkeypatch)
    (finding,) = cpu_quota.find(case)
    assert finding.cost.value_s == pytest.approx(29 * 0.08)  # the last wait does not end
    assert "it got 20.0 of each 100 ms" in finding.what
    assert "ended at the same point of a period of 100 ms, within 5 ms" in finding.because[0]
    # and it is not the programs' that ran meanwhile
    assert not [one for one in cpu_taken.find(case) if one.cost.value_s > 0.1]


def test_waits_that_end_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    runs, at = [], 0
    while at < WALL_MS - 150:
        runs.append((at, at + 20))
        at += 20 + int(rng.integers(40, 120))
    assert not cpu_quota.find(_case(tmp_path / "r", runs, monkeypatch))


def test_without_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case(tmp_path / "r", [(0, WALL_MS)], monkeypatch)
    assert not cpu_quota.find(case)
    assert not cpu_quota.find(replace(case, ledger=replace(case.ledger, basis="threads")))


@given(st.integers(0, 99), st.integers(8, 60), st.integers(1, 10**9))
def test_ends_in_step_are_known_at_any_phase(phase_ms: int, waits: int, start: int) -> None:
    end = (start + np.arange(waits)) * 100_000_000 + phase_ms * 1_000_000
    r, p, steps = in_step(end, np.full(waits, 50_000_000), 100_000_000)
    assert r == pytest.approx(1) and p == pytest.approx(np.exp(-waits)) and steps.all()


def test_chance_is_seldom_in_step() -> None:
    rng = np.random.default_rng(2)
    ps = []
    for _ in range(500):
        lengths = rng.integers(5_000_000, 90_000_000, 40)
        ps.append(in_step(rng.integers(0, 10**10, 40), lengths, 100_000_000)[1])
    assert sum(p <= 0.01 for p in ps) <= 15
