# SPDX-License-Identifier: BSD-2-Clause
"""Requests that a cgroup's limit held back: seconds of the path before they were sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.held import RULES
from tests.analysis.device_cases import HELD, case_of, found_by, one


def test_held_requests_cost_the_wait_before_they_were_sent(tmp_path: Path) -> None:
    # the throttle's worker queues what it held: 9 ms after the thread went to sleep
    own = [one(1000, 0, 9000, work_id=HELD, submitter="kernel_thread") for _ in range(20)]
    (found,) = found_by(RULES, case_of(tmp_path / "run", own))
    assert found.cost.value_s == pytest.approx(0.180, rel=0.01)
    assert found.certainty == "sure"
    assert "20 requests" in found.because[0]
    assert found.lines == {"device_read"}
    assert "7:3 rbps=max" in found.test


def test_slow_requests_without_a_limit_are_not_held(tmp_path: Path) -> None:
    assert not found_by(RULES, case_of(tmp_path / "run", [one(d2c_us=10_000) for _ in range(20)]))
