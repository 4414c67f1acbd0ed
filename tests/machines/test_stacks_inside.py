# SPDX-License-Identifier: BSD-2-Clause
"""Stacks of devices on other kernels, in virtual machines: the tests of FILES, all in one boot of each.

Debian's kernels have device-mapper, md, bcache and NVMe as modules; this kernel may have none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.machines.inside_machine import Case, inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1800
KERNELS = ("6.1", "6.12")
FILES = (
    "test_stacks",
    "test_several_disks",
    "test_stack_faults",
    "test_stacks_traced",
    "test_stacks_session",
    "test_disk_volumes",
)


@pytest.fixture(scope="module", params=KERNELS)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Case]]:
    """What the tests inside found."""
    run = tmp_path_factory.mktemp(f"stacks-{request.param}-")
    with inside(run, request.param, [f"tests/collectors/{file}.py" for file in FILES]) as machine:
        machine.wait(SECONDS)
        yield machine.cases()


def lacks(case: Case) -> bool:
    """Return whether a test was skipped for md's linear level, which Linux 6.8 to 6.13 do not have."""
    return case.outcome == "skipped" and "the kernel has no linear" in case.text


def test_every_stack_is_recorded_right(cases: list[Case]) -> None:
    bad = [case for case in cases if case.outcome != "passed" and not lacks(case)]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert len(cases) > 100
