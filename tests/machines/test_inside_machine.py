# SPDX-License-Identifier: BSD-2-Clause
"""The truth tests once more, on another kernel in a virtual machine (inside_machine.py).

It takes longest of all and one CPU, so it is started first, and waited for when all is done that needs no
quiet machine (tests/conftest.py has the order). The short truth of every kernel is in test_each_kernel.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.machines.inside_machine import TREE, Case, Inside, inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1800
KERNEL = "6.12"  # Debian 13's, which most new servers run
# Not test_fio.py, which asks for latencies that agree to microseconds, as most CPUs are emulated; nor
# test_counters.py, which asks what a program reads in /proc, but for what test_each_kernel.py has of it.
FILES = (
    "test_block",
    "test_block_blkparse",
    "test_block_pattern",
    "test_block_zones",
    "test_block_faults",
    "test_blktrace",
    "test_calls",
    "test_calls_queued",
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
        "test_blkparse_and_btt_read_the_files_and_agree[program]",
        "test_files_have_order_names_and_times_of_the_kernel[program]",
    ),
}
EXCEPT = (
    # What these ask is our programs' doing more than the kernel's, and is asked outside.
    "test_block_faults.py::test_every_way_to_stop_leaves_a_whole_table",
    "test_block_faults.py::test_killed_recorder_leaves_whole_records",
    "test_block_faults.py::test_full_disk_is_a_counted_loss_of_requests",
    "test_block_faults.py::test_overload_loses_nothing",
    "test_calls.py::test_full_disk_leaves_whole_records_and_lines",
    "test_calls.py::test_late_recorder_counts_lost_calls",
    "test_calls_queued.py::test_latency_lies_within_what_fio_measures",
    "test_locks.py::test_late_recorder_counts_lost_waits",
    "test_locks.py::test_full_wait_map_is_a_counted_loss",
    "test_lock_samples.py::test_waits_are_recorded_without_perf_events",
    # Emulated CPUs get test-and-set spinlocks, which wait before the tracepoint (virt_spin_lock()).
    "test_lock_storms.py::test_waits_in_interrupts_inside_waits_are_counted",
    # The same of the kernel's code is asked by what stays: ext4's driver serves ext2 and ext3; a wait of a
    # known length and the counts of a storm are the lock's doing, not the file system's.
    "test_block.py::test_mixed_workload_matches_the_kernels_disk_statistics[ext2]",
    "test_block.py::test_mixed_workload_matches_the_kernels_disk_statistics[ext3]",
    "test_block.py::test_mixed_workload_in_memory_matches_disk_statistics",
    "test_block_blkparse.py::test_requests_equal_blkparse[mq-deadline]",
    "test_locks.py::test_wait_of_known_length_is_recorded",
    "test_lock_truth.py::test_sleeping_holder_of_a_file_is_found[xfs]",
    "test_lock_truth.py::test_sleeping_holder_of_a_file_is_found[btrfs]",
    "test_lock_storms.py::test_fsync_storm_counts_the_waits_for_the_journal[xfs]",
    "test_lock_storms.py::test_fsync_storm_counts_the_waits_for_the_journal[btrfs]",
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
    with inside(tmp_path_factory.mktemp("inside"), KERNEL, words()) as machine:
        yield machine


@pytest.fixture(scope="session")
def cases(started: Inside) -> dict[str, list[Case]]:
    """All of them run in one machine; their outcomes by file."""
    started.wait(SECONDS)
    found = defaultdict(list)
    for case in started.cases():
        found[case.file].append(case)
    return found


def test_left_out_tests_exist() -> None:
    """A test that has another name now would run inside, or not at all, unnoticed."""
    only = [f"{file}.py::{test}" for file, tests in ONLY.items() for test in tests]
    for test in (*EXCEPT, *only):
        file, _, name = test.partition("::")
        source = (TREE / "tests/collectors" / file).read_text()
        assert f"def {name.partition('[')[0]}(" in source, test


def test_machine_is_running(started: Inside) -> None:
    assert started.process.poll() is None


@pytest.mark.parametrize("file", FILES)
def test_collector_tests_pass_on_another_kernel(cases: dict[str, list[Case]], file: str) -> None:
    bad = [case for case in cases[file] if case.outcome != "passed"]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert cases[file], "nothing ran"
