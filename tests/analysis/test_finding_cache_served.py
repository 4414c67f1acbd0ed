# SPDX-License-Identifier: BSD-2-Clause
"""Reads from memory are found by bytes: those of the calls against those that the disk sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings import cache_served
from analysis.findings.finding import Certainty
from analysis.measures.critical_path.pieces import Kind
from tests.analysis.cpu_cases import FIRST, calls, case_of, on_cpu, path_of, share, spec_of
from tests.analysis.synthetic import Spec, request

SHARES = [share(5.0), share(5.0, Kind.DEVICE, "", "app", "device_read")]


def _spec(from_disk: int, **more: int) -> Spec:
    blocks = [
        request(FIRST + i * 1_000_000, i * 2048, 1 << 20, op="read", submitter="workload", **more)
        for i in range(from_disk)
    ]
    # 4 s of the 5 s awake in the kernel are in reads
    return spec_of(on_cpu(1, 5000), block=blocks, call=calls("read", 10_000, 4.0, 1_000_000_000))


def test_warm_cache(tmp_path: Path) -> None:
    (finding,) = cache_served.find(case_of(tmp_path / "r", _spec(20), path_of(SHARES)))
    assert "97.9 % of the 1.00 GB read came from memory" in finding.what
    assert "The disk sent 21.0 MB of file data for the workload's 10,000 reads." in finding.because
    assert finding.cost.value_s == pytest.approx(4.0, rel=1e-3)
    assert finding.certainty == Certainty.SURE
    assert "drop_caches" in finding.test


def test_cold_cache_is_none(tmp_path: Path) -> None:
    assert not cache_served.find(case_of(tmp_path / "r", _spec(900), path_of(SHARES)))


def test_reads_of_others_do_not_make_it_cold(tmp_path: Path) -> None:
    case = case_of(tmp_path / "r", _spec(900, in_workload=0), path_of(SHARES))
    assert cache_served.find(case)
