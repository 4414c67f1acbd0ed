# SPDX-License-Identifier: BSD-2-Clause
"""Small reads of a stream cost each wait; larger reads, and small ones here and there, do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.cold_reads import RULES as COLD
from analysis.findings.small_reads import RULES
from tests.analysis.device_cases import case_of, found_by, one


def test_stream_without_readahead(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", [one() for _ in range(500)], device={"read_ahead_kb": 0})
    (found,) = found_by(RULES, case)
    # at the device, and 2 us each until it has a CPU; before the issue, 5 us, is the queue's
    assert found.cost.value_s == pytest.approx(500 * 102e-6, rel=0.01)
    assert found.certainty == "sure"
    assert "500 waits for 4.10 kB" in found.what
    assert "Readahead of loop3: 0 kB." in found.because
    assert not found_by(COLD, case)  # the same reads are no other finding


def test_readahead_that_is_on_makes_it_less_sure(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", [one() for _ in range(500)], device={"read_ahead_kb": 128})
    (found,) = found_by(RULES, case)
    assert found.certainty == "likely"
    assert "is on" in found.doubt


def test_large_reads_are_cold_ones(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", [one(2000, bytes=128 << 10) for _ in range(60)])
    assert not found_by(RULES, case)
    (cold,) = found_by(COLD, case)
    assert cold.cost.value_s == pytest.approx(60 * 2002e-6, rel=0.01)
    assert cold.certainty == "sure"


def test_reads_of_what_was_read_before_are_not_cold(tmp_path: Path) -> None:
    own = [one(2000, bytes=128 << 10, sector=256 * (i % 2)) for i in range(60)]
    assert not found_by(COLD, case_of(tmp_path / "run", own))


def test_files_of_a_few_small_reads_are_no_stream(tmp_path: Path) -> None:
    own = [one(sector=(file << 12) + 8 * i, ino=100 + file) for file in range(100) for i in range(4)]
    assert not found_by(RULES, case_of(tmp_path / "run", own, device={"read_ahead_kb": 128}))
