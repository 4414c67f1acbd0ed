# SPDX-License-Identifier: BSD-2-Clause
"""Without switches there is no path: the threads' sleeps for the disk are a finding of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.findings.device_waits import RULES
from analysis.measures.critical_path.results import NoPath
from analysis.measures.ledger import PATH, THREADS, Line
from tests.analysis.device_cases import case_of, found_by, one


def test_sleeps_for_the_disk_without_a_path(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", [one(1000) for _ in range(100)])
    assert case.ledger.basis == PATH
    assert not found_by(RULES, case)  # the rules on the path's requests tell more
    lines = [Line("cpu", "on a CPU", 40_000_000), Line("device_read", "device read", 60_000_000)]
    ledger = replace(case.ledger, basis=THREADS, wall_s=0.1, threads=1, total_ns=100_000_000, lines=lines)
    results = replace(case.results, path=NoPath(""), device_time=None)
    (found,) = found_by(RULES, replace(case, ledger=ledger, results=results))
    assert found.cost.value_s == pytest.approx(0.06)
    assert found.certainty == "likely"
    assert "device read 0.06 s" in found.because[0]
    assert found.lines == {"device_read"}
    lines[1] = Line("lock", "lock", 60_000_000)
    assert not found_by(RULES, replace(case, ledger=ledger, results=results))
