# SPDX-License-Identifier: BSD-2-Clause
"""data=journal costs what commits wait for data in the journal; without the option there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings.data_journal import RULES
from analysis.findings.rule import Case
from tests.analysis.device_cases import BEGIN, case_of, found_by, one


def case_with(folder: Path, options: str) -> Case:
    """Each write goes to the journal, 20 ms, and to its place."""
    own = [one(20_000, wait="commit", op="write", class_="journal", bytes=1 << 20) for _ in range(20)]
    own += [one(20_000, wait="direct", op="write", bytes=1 << 20) for _ in range(20)]
    call = [{"bin_ns": BEGIN, "call": "write", "count": 20, "bytes": 20 << 20}]
    return case_of(folder, own, words={"FS": "ext4", "MOUNT": options}, mounted=options, call=call)


def test_commits_of_data_are_found_with_the_option(tmp_path: Path) -> None:
    (found,) = found_by(RULES, case_with(tmp_path / "run", "rw,data=journal"))
    assert found.cost.value_s == pytest.approx(20 * 20_007e-6, rel=0.01)
    assert found.cost.low_s == pytest.approx(20 * 20_000e-6, rel=0.01)
    assert "(data=journal; 21.0 MB of journal)" in found.what
    assert found.remedy is not None and found.remedy.words == {"MOUNT": "rw,data=ordered"}


def test_a_journal_without_data_is_none(tmp_path: Path) -> None:
    assert not found_by(RULES, case_with(tmp_path / "run", "rw,data=ordered"))
