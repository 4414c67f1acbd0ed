# SPDX-License-Identifier: BSD-2-Clause
"""Bytes by cgroup against the kernel's io.stat, write-back too, with all controllers in cgroup2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.inside_machine import inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1200
KERNEL = "6.12"


def test_bytes_by_cgroup_are_those_of_the_kernel(tmp_path: Path) -> None:
    with inside(tmp_path, KERNEL, ["tests/collectors/test_units.py"]) as machine:
        machine.wait(SECONDS)
        cases = machine.cases()
    bad = [case for case in cases if case.outcome == "failed"]
    assert not bad, "\n".join(f"{case.name}: {case.text}" for case in bad)
    passed = {case.name for case in cases if case.outcome == "passed"}
    assert {f"test_bytes_by_cgroup_equal_io_stat[{fs}]" for fs in ("ext4", "xfs", "btrfs")} <= passed
