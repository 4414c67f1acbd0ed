# SPDX-License-Identifier: BSD-2-Clause
"""Pauses of the workload's own are found; waits for a device are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.causes.classify import Waited
from analysis.findings import own_pause
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import OwnWaits
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, share, spec_of


def test_rate_that_the_workload_keeps(tmp_path: Path) -> None:
    shares = [share(4.0), share(6.0, Kind.TIMER, "workload", "app", "sleep")]
    waits = [OwnWaits(Waited("sleep", "do_nanosleep"), 600, 6_000_000_000, 12_000_000)]
    path = path_of(shares, own_waits=waits)
    (finding,) = own_pause.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4000)), path))
    assert finding.cost.value_s == pytest.approx(6.0)
    assert "6.00 s of 10.0 s (60 %), in 600 sleeps" in finding.what
    assert finding.because == ("The longest took 12.0 ms; asleep in do_nanosleep.",)


def test_no_pause(tmp_path: Path) -> None:
    shares = [share(4.0), share(6.0, Kind.DEVICE, "", "app", "device_read")]
    assert not own_pause.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4000)), path_of(shares)))
