# SPDX-License-Identifier: BSD-2-Clause
"""The workload's own code is found by CPU samples outside the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.findings import generator
from analysis.measures.critical_path.pieces import Kind
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, share, spec_of

SHARES = [share(5.0), share(5.0, Kind.DEVICE, "", "app", "device_read")]


def test_own_code(tmp_path: Path) -> None:
    (finding,) = generator.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 2000, 3000)), path_of(SHARES)))
    assert finding.cost.value_s == pytest.approx(3.0, rel=1e-3)
    assert finding.cost.low_s < 3.0 < finding.cost.high_s
    assert "3,000 of 5,000 CPU samples" in finding.because[0]
    assert finding.test == "a RAM disk changes nothing of it: make trace FS=ext4 WL=compilebench DISK=ram"


def test_kernel_alone_is_none(tmp_path: Path) -> None:
    assert not generator.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4800, 200)), path_of(SHARES)))
