# SPDX-License-Identifier: BSD-2-Clause
"""Threads of the file system that keep the workload waiting for their work on CPUs; a little is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.causes.roles import DISK, FILESYSTEM
from analysis.findings import fs_cpu
from analysis.findings.finding import Certainty
from analysis.measures.critical_path.pieces import Kind
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, ready, share, spec_of, times

WORKER = "kworker btrfs_work_helper"


def test_compressing_workers_with_the_mount_option(tmp_path: Path) -> None:
    shares = [share(2.0), share(3.0, Kind.CPU, FILESYSTEM, WORKER, "page_io")]
    shares += [share(4.0, Kind.READY, FILESYSTEM, "kworker", "page_io"), ready(1.0, FILESYSTEM, "kworker")]
    spec = spec_of(on_cpu(1, 2000), times(3, "running", 9.0))
    spec.run["filesystem"]["proc_mounts"] = "/dev/loop3 /mnt btrfs rw,relatime,rw,compress-force=zstd:15"
    (finding,) = fs_cpu.find(case_of(tmp_path / "r", spec, path_of(shares)))
    assert finding.cost.value_s == pytest.approx(8.0)
    assert "at work on CPUs (mounted with compress-force=zstd:15) for 8.00 s of 10.0 s" in finding.what
    assert finding.because[0] == f"On a CPU: {WORKER} 3.00 s."
    assert "5.00 s of it the work was ready to run behind such threads, on 2 CPUs" in finding.because[1]
    assert finding.certainty == Certainty.SURE and finding.lines == {"page_io", "ready"}
    assert finding.test.startswith("without compress-force=zstd:15: ")


def test_a_little_of_it_and_the_loop_devices_workers_are_none(tmp_path: Path) -> None:
    shares = [share(8.5), share(1.5, Kind.CPU, FILESYSTEM, "jbd2/loop3-8", "commit")]
    assert not fs_cpu.find(case_of(tmp_path / "a", spec_of(on_cpu(1, 8500)), path_of(shares)))
    shares = [share(5.0), share(5.0, Kind.CPU, DISK, "kworker", "device_read", is_below=True)]
    assert not fs_cpu.find(case_of(tmp_path / "b", spec_of(on_cpu(1, 5000)), path_of(shares)))
