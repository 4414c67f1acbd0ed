# SPDX-License-Identifier: BSD-2-Clause
"""The truth tests once more, on another kernel: the distribution's, in a virtual machine (inside_machine.py).

It takes longest of all and one CPU, so it is started first, and waited for when all is done that needs no
quiet machine (tests/conftest.py has the order). The short truth of every kernel is in test_each_kernel.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.collectors.inside_machine import TREE, Case, Inside, inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1800
# test_fio.py is not among them: it asks for latencies that agree to microseconds, and most CPUs are emulated.
FILES = (
    "test_block",
    "test_block_blkparse",
    "test_block_pattern",
    "test_block_faults",
    "test_blktrace",
    "test_calls",
    "test_counters",
    "test_locks",
    "test_lock_names",
    "test_holds",
    "test_lock_samples",
    "test_lock_truth",
    "test_lock_storms",
    "test_cpu_unplug",
)
# Of these only what lockdown may forbid outside: the way by the blktrace program.
ONLY = {
    "test_blktrace": (
        "test_its_tools_read_it_and_all_agree[program]",
        "test_order_names_and_time[program]",
    ),
}
# What these ask is our programs' doing more than the kernel's, and is asked outside.
EXCEPT = (
    "test_block_faults.py::test_every_way_to_stop_leaves_a_whole_table",
    "test_block_faults.py::test_killed_recorder_leaves_whole_records",
    "test_block_faults.py::test_a_full_disk_is_a_counted_loss",
    "test_calls.py::test_a_full_disk_leaves_whole_records_and_lines",
    "test_calls.py::test_a_recorder_that_is_late_counts_what_it_lost",
    "test_locks.py::test_a_recorder_that_is_late_counts_what_it_lost",
)


def words() -> list[str]:
    """Return what pytest inside is asked to run."""
    paths = []
    for file in FILES:
        path = f"tests/collectors/{file}.py"
        paths += [f"{path}::{test}" for test in ONLY[file]] if file in ONLY else [path]
    return [*paths, *(f"--deselect=tests/collectors/{test}" for test in EXCEPT)]


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """The machine, running; ended with the tests, however they end."""
    with inside(tmp_path_factory.mktemp("inside"), "newest", words()) as machine:
        yield machine


@pytest.fixture(scope="session")
def cases(started: Inside) -> dict[str, list[Case]]:
    """All of them run in one machine; their outcomes by file."""
    ended = started.wait(SECONDS)
    assert ended["status"] in (0, 1), "\n".join([ended["why"], *ended["said"]])
    found = defaultdict(list)
    for case in started.cases():
        found[case.file].append(case)
    return found


def test_the_machine_is_started(started: Inside) -> None:
    assert started.process.poll() is None


@pytest.mark.parametrize("file", FILES)
def test_the_truth_on_another_kernel(cases: dict[str, list[Case]], file: str) -> None:
    assert (TREE / f"tests/collectors/{file}.py").exists()
    bad = [case for case in cases[file] if case.outcome != "passed"]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert cases[file], "nothing ran"
