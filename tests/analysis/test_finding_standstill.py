# SPDX-License-Identifier: BSD-2-Clause
"""A disk that completes nothing for long is found; slow disks, flushes and an idle disk are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.device_latency import RULES as LATENCY
from analysis.findings.standstill import RULES as STANDSTILL
from tests.analysis.device_cases import DIRECT, case_of, found_by, one


def test_disk_that_stands_still_once(tmp_path: Path) -> None:
    own = [one(1000 if i != 50 else 900_000, wait="direct", end_io_id=DIRECT) for i in range(100)]
    case = case_of(tmp_path / "run", own)
    (found,) = found_by(STANDSTILL, case)
    assert found.cost.value_s == pytest.approx(0.9, rel=0.01)
    assert "stood still once" in found.what
    assert "1 request and completed none for 0.90 s; else it completed one every 1" in found.because[0]
    (latency,) = found_by(LATENCY, case)
    assert latency.cost.value_s == pytest.approx(0.099, rel=0.02)


@pytest.mark.parametrize("each_us", [100_000, 250_000])
def test_slow_disk_does_not_stand_still(tmp_path: Path, each_us: int) -> None:
    own = [one(each_us * (1 + i % 3), wait="direct", end_io_id=DIRECT) for i in range(30)]
    assert not found_by(STANDSTILL, case_of(tmp_path / "run", own))


def test_long_flush_is_the_flush(tmp_path: Path) -> None:
    own = [one(1000, wait="direct", end_io_id=DIRECT) for _ in range(100)]
    own.append(one(900_000, wait="flush", op="flush", bytes=0))
    assert not found_by(STANDSTILL, case_of(tmp_path / "run", own))


def test_disk_without_requests_does_not_stand_still(tmp_path: Path) -> None:
    own = [one(1000, wait="direct", end_io_id=DIRECT, held_us=0 if i != 50 else 900_000) for i in range(100)]
    assert not found_by(STANDSTILL, case_of(tmp_path / "run", own))
