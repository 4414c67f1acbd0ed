# SPDX-License-Identifier: BSD-2-Clause
"""Slow wake-ups of idle CPUs are found; a limit on CPU time is named where they take too long for a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings import cpu_wakeup
from analysis.measures.critical_path.owners import IDLE
from analysis.measures.critical_path.pieces import Kind
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, ready, share, spec_of, times

SPEC = (on_cpu(1, 1000), times(1, "runnable", 1.0, by="idle"))


def test_many_short_wake_ups(tmp_path: Path) -> None:
    shares = [share(1.0), share(8.0, Kind.DEVICE, "", "app", "device_read")]
    shares += [ready(1.0, IDLE, "idle", pieces=20_000)]
    (finding,) = cpu_wakeup.find(case_of(tmp_path / "r", spec_of(*SPEC), path_of(shares)))
    assert finding.cost.value_s == pytest.approx(1.0)
    assert finding.because[0] == "20,000 times, 50.0 us each on average."
    assert "cpu.max" not in " ".join(finding.because)


def test_long_ones_point_to_a_limit(tmp_path: Path) -> None:
    shares = [share(5.0), ready(5.0, IDLE, "idle", pieces=100)]
    (finding,) = cpu_wakeup.find(case_of(tmp_path / "r", spec_of(*SPEC), path_of(shares)))
    assert "cpu.max" in finding.because[1]


def test_quick_ones_are_none(tmp_path: Path) -> None:
    shares = [share(9.95), ready(0.05, IDLE, "idle", pieces=20_000)]
    assert not cpu_wakeup.find(case_of(tmp_path / "r", spec_of(*SPEC), path_of(shares)))
