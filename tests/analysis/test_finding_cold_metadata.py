# SPDX-License-Identifier: BSD-2-Clause
"""First reads of metadata are found; the same places again, and reads of data, are other findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.cold_metadata import RULES
from analysis.findings.cold_reads import RULES as OF_DATA
from analysis.findings.device_latency import RULES as LATENCY
from tests.analysis.device_cases import case_of, found_by, one


def test_metadata_read_for_the_first_time(tmp_path: Path) -> None:
    own = [one(2000, class_="metadata", sector=64 * i) for i in range(100)]
    case = case_of(tmp_path / "run", own)
    (found,) = found_by(RULES, case)
    # at the device, and 2 us each until it has a CPU; before the issue, 5 us, is the queue's
    assert found.cost.value_s == pytest.approx(100 * 2002e-6, rel=0.01)
    assert "metadata that was not in memory" in found.what and found.certainty == "sure"
    assert not found_by(OF_DATA, case) and not found_by(LATENCY, case)


def test_the_same_places_again_are_the_disks_latency(tmp_path: Path) -> None:
    own = [one(2000, class_="metadata", sector=64 * (i % 2)) for i in range(100)]
    case = case_of(tmp_path / "run", own)
    assert not found_by(RULES, case)
    (found,) = found_by(LATENCY, case)
    assert found.cost.value_s == pytest.approx(98 * 2000e-6, rel=0.01)
