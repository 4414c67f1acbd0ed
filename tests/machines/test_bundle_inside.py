# SPDX-License-Identifier: BSD-2-Clause
"""The bundle, made on this machine, records on every kernel of docs/KERNELS.md's table, in virtual machines.

By its recorder beside the tree's, and in a root where busybox is all that there is: every write of a known
pattern is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collectors.vm.kernel_table import KERNELS
from tests.bundles import archive
from tests.machines.inside_machine import Case, inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1800  # with emulated CPUs beside other tests
FILE = "tests/collectors/test_bundle_recorded.py"
TESTS = (
    "test_both_recorders_record_the_same",
    "test_recorder_records_in_a_root_with_nothing_else",
    "test_watch_of_the_front_records_where_nothing_else_is",
)


@pytest.fixture(scope="module", params=KERNELS)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Case]]:
    """What the tests inside found, in one boot of a kernel."""
    archive()  # inside, the tree can't be written
    run = tmp_path_factory.mktemp(f"bundle-{request.param}-")
    with inside(run, request.param, [f"{FILE}::{test}" for test in TESTS]) as machine:
        ended = machine.wait(SECONDS)
        assert ended["kernel"].startswith(f"{request.param}.")
        yield machine.cases()


def lacks(case: Case) -> bool:
    """Return whether a test was skipped as Linux 5.10 has no collector of threads."""
    return case.outcome == "skipped" and "the kernel keeps no data with a task" in case.text


def test_bundle_records_every_write(cases: list[Case]) -> None:
    bad = [case for case in cases if case.outcome != "passed" and not lacks(case)]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert sorted(case.name for case in cases) == sorted(TESTS)
