# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder on suspended device-mapper volumes, in a virtual machine: this kernel may have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.inside_machine import inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1800
KERNEL = "6.12"


def test_suspended_volume_fires_before_it_resumes(tmp_path: Path) -> None:
    with inside(tmp_path, KERNEL, ["tests/collectors/test_suspended.py"]) as machine:
        machine.wait(SECONDS)
        cases = machine.cases()
    bad = [case for case in cases if case.outcome != "passed"]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert len(cases) == 8
