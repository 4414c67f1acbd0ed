# SPDX-License-Identifier: BSD-2-Clause
"""A short truth on every kernel of docs/KERNELS.md's table, in virtual machines.

What must be on is on, the table says so, and records equal what the kernel and the programs counted.
The long truth, on one kernel, is in test_inside_machine.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from collectors.collector import Check
from collectors.vm import kernel_table
from collectors.vm.kernel_table import BEGIN, END, KERNELS, PAGE
from tests.machines.inside_machine import Case, inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 600
# What came with which Linux: the contention tracepoints, and task storage for tracing programs.
SINCE = {
    "locks": ("5.19", "contention_begin"),
    "sched": ("5.12", "no data with a task"),
    "threads": ("5.12", "no data with a task"),
}
# Tests that a kernel can't pass, and the reason that their skip must give.
LACKS = {
    "5.10": {
        "test_each_sync_of_ext4_has_a_commit_with_its_asker_and_phases": "no type information of its modules"
    }
}
# Requests and bytes beside /proc/diskstats; calls and bytes of a known program; waits for a mutex beside the
# kernel's event tracer, and by name; one wait of a known length for an rwsem; switches that threads counted;
# states of each thread beside its lifetime, and known sleeps and waits for a CPU.
TRUTH = {
    "block": ("test_block.py::test_mixed_workload_matches_the_kernels_disk_statistics[ext4]",),
    "calls": (
        "test_calls.py::test_every_call_byte_and_error_is_exact",
        "test_calls_queued.py::test_every_request_byte_and_error_is_exact[uring]",
        "test_calls_queued.py::test_every_request_byte_and_error_is_exact[aio]",
    ),
    "counters": ("test_counters.py::test_disk_counters_are_exact_over_the_recording",),
    "events": (
        "test_events.py::test_a_sync_writes_what_became_dirty[ext4]",
        "test_events.py::test_each_sync_of_ext4_has_a_commit_with_its_asker_and_phases",
        "test_events.py::test_the_recording_says_which_kinds_the_kernel_shows",
    ),
    "locks": (
        "test_locks.py::test_pipe_storm_counts_every_wait_and_splits_it",
        "test_lock_truth.py::test_sleeping_holder_of_a_file_is_found[ext4]",
        "test_lock_names.py::test_pipe_mutex_is_named",
    ),
    "sched": (
        "test_sched.py::test_switches_are_those_that_the_kernel_counted",
        "test_sched.py::test_wakes_by_completions_name_the_request",
    ),
    "threads": (
        "test_threads.py::test_states_add_up_to_each_threads_lifetime",
        "test_threads.py::test_a_sleep_has_its_length_and_its_stack",
        "test_threads.py::test_who_ran_while_a_thread_waited",
    ),
}


def wanted(word: str) -> list[str]:
    """The collectors that must be on in a kernel."""
    return [name for name in TRUTH if name not in SINCE or _numbers(word) >= _numbers(SINCE[name][0])]


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def lacks(word: str, case: Case) -> bool:
    """Whether the test was skipped for a reason that is known of this kernel."""
    reason = LACKS.get(word, {}).get(case.name)
    return case.outcome == "skipped" and reason is not None and reason in case.text


@dataclass(frozen=True)
class Asked:
    """What a kernel answered."""

    word: str
    release: str
    checks: list[Check]
    cases: list[Case]


@pytest.fixture(scope="module", params=KERNELS)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """All of it, in one boot of a kernel."""
    word = request.param
    run = tmp_path_factory.mktemp(f"linux-{word}-")
    tests = [f"tests/collectors/{test}" for name in wanted(word) for test in TRUTH[name]]
    with inside(run, word, tests) as machine:
        ended = machine.wait(SECONDS)
        release, checks = kernel_table.read((run / "raw/checks.json").read_text())
        assert release == ended["kernel"]
        assert release.startswith(f"{word}.")
        yield Asked(word, release, checks, machine.cases())


def test_required_collectors_are_on(asked: Asked) -> None:
    states = {check.name: (check.answer, check.why) for check in asked.checks}
    off = {name: states[name] for name in wanted(asked.word) if states[name][0] != "yes"}
    assert off == {}, asked.release


def test_kernels_page_equals_the_answers_of_doctor(asked: Asked) -> None:
    """By collector: on or off in the column of this kernel's series, and why."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = [line.strip("| ").split(" | ") for line in table]
    column = next(at for at, head in enumerate(rows[0]) if head.startswith(f"Linux {asked.word}."))
    said = {row[0].strip("`"): row[column] for row in rows[2:]}
    assert said == {check.name: kernel_table.cell(check) for check in asked.checks}


@pytest.mark.parametrize("name", TRUTH)
def test_known_workload_is_recorded_exactly(asked: Asked, name: str) -> None:
    if name not in wanted(asked.word):
        absent = next(check for check in asked.checks if check.name == name)
        assert (absent.answer, SINCE[name][1] in absent.why) == ("no", True)
        return
    files = {test.partition(".py::")[0] for test in TRUTH[name]}
    cases = [case for case in asked.cases if case.file in files]
    bad = [case for case in cases if case.outcome != "passed" and not lacks(asked.word, case)]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert len(cases) == len(TRUTH[name])
