# SPDX-License-Identifier: BSD-2-Clause
"""Writes that are in memory at the end are found by bytes: those of calls against those sent until then."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings import writes_in_memory
from analysis.measures.critical_path.pieces import Kind
from tests.analysis.cpu_cases import FIRST, WALL_S, calls, case_of, on_cpu, path_of, share, spec_of
from tests.analysis.synthetic import Spec, request

SHARES = [share(5.0), share(5.0, Kind.DEVICE, "", "app", "device_read")]
END = FIRST + round(WALL_S * 1e9)


def _spec(before: int, after: int) -> Spec:
    """MiB sent to the disk before and after the workload's end."""
    blocks = [request(FIRST + i * 1_000_000, i * 2048, 1 << 20) for i in range(before)]
    blocks += [request(END + i * 10_000, (before + i) * 2048, 1 << 20) for i in range(after)]
    return spec_of(on_cpu(1, 5000), block=blocks, call=calls("write", 10_000, 2.0, 1_000_000_000))


def test_nothing_sent_before_the_end(tmp_path: Path) -> None:
    (finding,) = writes_in_memory.find(case_of(tmp_path / "r", _spec(95, 900), path_of(SHARES)))
    assert finding.what.startswith("90 % of the 1.00 GB written were still in memory")
    assert finding.cost.value_s == pytest.approx(2.0, rel=1e-3)
    assert finding.because[1] == "The sync after the workload, which is not in its time, took 0.40 s."
    assert finding.evidence[1].inside == 95 << 20


def test_written_back_in_time_is_none(tmp_path: Path) -> None:
    assert not writes_in_memory.find(case_of(tmp_path / "r", _spec(940, 20), path_of(SHARES)))
