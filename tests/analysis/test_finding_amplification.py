# SPDX-License-Identifier: BSD-2-Clause
"""Writes of the journal cost the seconds that they were waited for, where more is sent than was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.amplification import RULES
from tests.analysis.device_cases import BEGIN, case_of, found_by, one


def _calls(written: int) -> list[dict[str, object]]:
    row = {"bin_ns": BEGIN, "call": "write", "count": 10, "bytes": written}
    return [row]


def test_journal_writes_are_counted_in_seconds(tmp_path: Path) -> None:
    own = [one(300, 0, wait="flush", op="write", class_="journal", bytes=8192) for _ in range(100)]
    own += [one(300, 0, wait="flush", op="write", class_="data") for _ in range(100)]
    case = case_of(tmp_path / "run", own, call=_calls(100 * 4096))
    (found,) = found_by(RULES, case)
    assert found.cost.value_s == pytest.approx(100 * 300e-6, rel=0.01)
    assert "3.00 bytes sent for each written" in found.what


def test_data_alone_is_no_amplification(tmp_path: Path) -> None:
    own = [one(300, 0, wait="flush", op="write") for _ in range(100)]
    assert not found_by(RULES, case_of(tmp_path / "run", own, call=_calls(100 * 4096)))
