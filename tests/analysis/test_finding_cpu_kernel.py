# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's work on a CPU is found with its calls; time asleep in a call is not the CPU's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings import cpu_kernel
from analysis.findings.finding import Certainty
from analysis.measures.cpu.split import wilson
from analysis.measures.critical_path.pieces import Kind
from tests.analysis.cpu_cases import calls, case_of, idle, on_cpu, path_of, ready, share, spec_of, times

SLEPT: dict[str, Any] = {"stack_id": 0, "call": "open", "call_target": "target"}


def test_calls_share_the_kernels_time(tmp_path: Path) -> None:
    spec = spec_of(
        on_cpu(1, kernel=6000, user=2000),
        times(1, "io_wait", 2.0, **SLEPT),
        call=calls("write", 10_000, 4.5, 100_000_000) + calls("open", 100_000, 3.5),
        counter=idle(0.5),
    )
    shares = [share(8.0), share(2.0, Kind.DEVICE, "", "app", "device_read")]
    (finding,) = cpu_kernel.find(case_of(tmp_path / "r", spec, path_of(shares)))
    assert finding.cost.value_s == pytest.approx(6.0, rel=1e-3)
    low, high = wilson(6000, 8000)
    assert finding.cost.low_s == pytest.approx(8 * low, rel=1e-3)
    assert finding.cost.high_s == pytest.approx(8 * high, rel=1e-3)
    assert "6.00 s of 10.0 s (60 %), one thread: write() 4.50 s, open() 1.50 s." in finding.what
    assert (
        "write() kept a CPU, or waited for one, 450 us a call (10,000 calls, 10.0 kB each)."
        in finding.because
    )
    assert "Of 2 CPUs 0.50 were idle on average." in finding.because
    assert finding.certainty == Certainty.SURE
    assert "perf' (names the functions)" in finding.test


def test_time_awake_beyond_the_kernels_is_scaled(tmp_path: Path) -> None:
    spec = spec_of(
        on_cpu(1, kernel=5000),
        times(1, "runnable", 5.0, by="other"),
        call=calls("write", 1000, 6.0) + calls("open", 1000, 4.0),
    )
    (finding,) = cpu_kernel.find(
        case_of(tmp_path / "r", spec, path_of([share(5.0), ready(5.0, "other", "hog")]))
    )
    assert "write() 3.00 s, open() 2.00 s" in finding.what


def test_few_samples_are_said(tmp_path: Path) -> None:
    spec = spec_of(times(1, "running", 2.0, {"samples": 50}), call=calls("write", 1000, 2.0))
    shares = [share(2.0), share(8.0, Kind.DEVICE, "", "app", "device_read")]
    (finding,) = cpu_kernel.find(case_of(tmp_path / "r", spec, path_of(shares)))
    assert finding.certainty == Certainty.LIKELY and "only 50 CPU samples" in finding.doubt


@pytest.mark.parametrize(("kernel", "user"), [(500, 9500), (900, 0)])
def test_little_of_it_is_none(tmp_path: Path, kernel: int, user: int) -> None:
    cpu_s = (kernel + user) / 1000
    shares = [share(cpu_s), share(10.0 - cpu_s, Kind.DEVICE, "", "app", "device_read")]
    assert not cpu_kernel.find(case_of(tmp_path / "r", spec_of(on_cpu(1, kernel, user)), path_of(shares)))
