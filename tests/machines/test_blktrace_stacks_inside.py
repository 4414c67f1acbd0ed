# SPDX-License-Identifier: BSD-2-Clause
"""blktrace of stacks of devices beside the recorder, in a virtual machine: this kernel may have neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.inside_machine import inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1800
TEST = "tests/analysis/importers/test_blktrace_stacks_real.py"


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_imports_of_stacks_equal_the_recorder(tmp_path: Path, kernel: str) -> None:
    with inside(tmp_path, kernel, [TEST]) as machine:
        machine.wait(SECONDS)
        cases = machine.cases()
    bad = [case for case in cases if case.outcome == "failed"]
    assert not bad, "\n".join(f"{case.name}: {case.text}" for case in bad)
    assert sum(case.outcome == "passed" for case in cases) >= 40
