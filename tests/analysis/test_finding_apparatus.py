# SPDX-License-Identifier: BSD-2-Clause
"""What serves a disk file is found apart from the disk, and from programs that had its workers' CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.causes.roles import DISK, OTHER
from analysis.findings import apparatus
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.sums import NOT_LOGGED
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, ready, share, spec_of

BELOW = [
    share(1.5, Kind.CPU, DISK, "kworker", "device_read", is_below=True),
    share(0.5, Kind.HANDED, "", "app", "device_read", is_below=True),
    ready(0.5, DISK, "loop3"),
]
DEVICE = share(2.0, Kind.BELOW, "", "app", "device_read", is_below=True)
HELD_UP = share(1.0, Kind.READY, OTHER, NOT_LOGGED, "device_read", is_below=True)


def test_loop_device_is_apart_from_the_disk(tmp_path: Path) -> None:
    path = path_of([share(4.5), DEVICE, HELD_UP, *BELOW])
    (finding,) = apparatus.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4500)), path))
    assert finding.cost.value_s == pytest.approx(2.5)
    assert "loop3" in finding.what and "2.50 s of 10.0 s (25 %)" in finding.what
    assert "the loop worker runs 1.50 s" in finding.because[0]
    assert finding.because[1] == "The disk had requests of the path for 2.00 s."
    assert finding.remedy is not None and finding.remedy.words == {"DISK": "ram"}
    assert finding.remedy.saved.low_s == 0.0
    assert finding.remedy.saved.high_s == pytest.approx(4.5)
    assert finding.lines == {"device_read", "others"}


def test_disk_of_the_users_has_no_remedy(tmp_path: Path) -> None:
    spec = spec_of(on_cpu(1, 4500))
    spec.run["words"] = {"DIR": "/srv", "CMD": "cp a b"}
    path = path_of([share(4.5), DEVICE, HELD_UP, *BELOW])
    (finding,) = apparatus.find(case_of(tmp_path / "r", spec, path))
    assert finding.remedy is None and "DIR=/srv CMD='cp a b'" in finding.test


def test_guess_alone_is_possible(tmp_path: Path) -> None:
    guessed = share(2.5, Kind.CPU, DISK, "kworker", "device_read", is_below=True, weak_ns=2_490_000_000)
    path = path_of([share(5.5), DEVICE, guessed])
    (finding,) = apparatus.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 5500)), path))
    assert finding.certainty == "possible" and finding.doubt == "2.49 s rest on a guess"
    assert finding.cost.low_s == pytest.approx(0.01)


def test_disk_alone_is_none(tmp_path: Path) -> None:
    path = path_of([share(4.5), DEVICE, HELD_UP])
    assert not apparatus.find(case_of(tmp_path / "r", spec_of(on_cpu(1, 4500)), path))
