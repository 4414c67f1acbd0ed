# SPDX-License-Identifier: BSD-2-Clause
"""A run of less than five seconds is too short to tell, a longer one is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.findings import too_short
from analysis.findings.rule import Case
from tests.analysis.cpu_cases import case_of, on_cpu, spec_of
from tests.analysis.synthetic import START_NS


def lasting(case: Case, seconds: float) -> Case:
    """The same with a workload, or a watch, of this length."""
    window = case.results.window
    window = replace(window, work_end_ns=window.work_start_ns + round(seconds * 1e9))
    return replace(case, results=replace(case.results, window=window))


def test_short_run(tmp_path: Path) -> None:
    spec = spec_of(on_cpu(1, 1000))
    spec.event = [
        {"start_ns": START_NS + 10**9, "end_ns": START_NS + 10**9 + 1, "kind": "jbd2_commit", "why": why}
        for why in ("timer", "fsync")
    ]
    case = case_of(tmp_path / "r", spec)
    (finding,) = too_short.find(lasting(case, 1.7))
    assert finding.what == "The workload ran 1.70 s: too short to tell."
    assert "came by their timers: 1." in finding.because[0]
    assert finding.test == "make trace FS=ext4 WL=compilebench SCALE=paper"


def test_short_watch(tmp_path: Path) -> None:
    spec = spec_of(on_cpu(1, 1000))
    spec.run["workload"]["name"] = "watch"
    spec.run |= {"words": {"DEV": "sda", "SECS": "2"}, "command": "make watch DEV=sda SECS=2"}
    case = case_of(tmp_path / "r", spec)
    (finding,) = too_short.find(lasting(case, 2.0))
    assert finding.what == "The system was watched for 2.00 s: too short to tell."
    assert finding.test == "make watch DEV=sda SECS=30"


@pytest.mark.parametrize("wall_s", [0.0, 5.0, 40.0])
def test_long_run(tmp_path: Path, wall_s: float) -> None:
    case = case_of(tmp_path / "r", spec_of(on_cpu(1, 1000)))
    assert not too_short.find(lasting(case, wall_s))
