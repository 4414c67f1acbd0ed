# SPDX-License-Identifier: BSD-2-Clause
"""Waits for programs outside the workload are found; kernel threads and the loop device are none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.causes.roles import FILESYSTEM, OTHER
from analysis.findings import other_programs
from analysis.findings.finding import Certainty
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.sums import NOT_LOGGED
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, share, spec_of


def test_server_outside_of_the_workload(tmp_path: Path) -> None:
    shares = [share(4.0), share(5.0, Kind.CPU, OTHER, "postgres", "ipc")]
    shares += [share(1.0, Kind.UNLOGGED, OTHER, NOT_LOGGED, "ipc")]
    (finding,) = other_programs.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4000)), path_of(shares)))
    assert finding.cost.value_s == pytest.approx(6.0)
    assert "postgres and other programs" in finding.what
    assert "pipe, socket, futex 6.00 s" in finding.because[1]
    assert finding.certainty == Certainty.SURE and finding.lines == {"ipc"}


def test_another_programs_pause_is_not_the_workloads(tmp_path: Path) -> None:
    shares = [share(4.0), share(6.0, Kind.TIMER, OTHER, "producer", "ipc")]
    (finding,) = other_programs.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4000)), path_of(shares)))
    assert finding.what == "The workload waited 6.00 s of 10.0 s (60 %) for what producer did."
    assert finding.because[-1].startswith("They slept of their own will for 6.00 s")


def test_kernel_threads_are_no_programs(tmp_path: Path) -> None:
    shares = [
        share(4.0),
        share(3.0, Kind.CPU, OTHER, "ksoftirqd/0", "device_read"),
        share(2.0, Kind.CPU, FILESYSTEM, "jbd2/loop3-8", "commit"),
        share(0.5, Kind.CPU, OTHER, NOT_LOGGED, "device_read", is_below=True),
        share(0.5, Kind.CPU, OTHER, "fsfreeze", "lock"),
    ]
    assert not other_programs.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4000)), path_of(shares)))
