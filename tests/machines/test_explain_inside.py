# SPDX-License-Identifier: BSD-2-Clause
"""What explains a run (thread time, switches, the critical path, events, origins) on each kernel's own data.

All tests of FILES in one boot of each kernel; a test may be skipped only for what LACKS says of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from collectors.vm.kernel_table import KERNELS
from tests.machines.inside_machine import Case, inside

pytestmark = [pytest.mark.vm, pytest.mark.long]
SECONDS = 1800
FILES = (
    "test_threads",
    "test_thread_truth",
    "test_sched",
    "test_sched_truth",
    "test_critical_path",
    "test_events",
    "test_origin",
    "test_whys",
    "test_call_faults",
)
STORAGE = "the kernel keeps no data with a task for tracing programs"
MODULES = "the kernel has no type information of its modules"
LIMIT = "the kernel has no limit of dirty bytes by disk"
WINDOWS = "events readahead: no such tracepoint in this kernel"
SLOWED = "nothing slows this here"
# What a skip says, by the beginning of FILE::TEST.
RECLAIM = {"test_critical_path::test_path_covers_all_of_a_slowed_thread_s_time[reclaim]": SLOWED}
OLDER_EVENTS = {
    "test_events::test_a_writer_above_the_limit": LIMIT,
    "test_events::test_windows_of_readahead": WINDOWS,
}
LACKS: dict[str, dict[str, str]] = {
    "5.10": {
        "test_threads::": STORAGE,
        "test_thread_truth::": STORAGE,
        "test_sched::": STORAGE,
        "test_sched_truth::": STORAGE,
        "test_critical_path::": STORAGE,
        "test_origin::": STORAGE,
        "test_whys::": STORAGE,
        "test_call_faults::": "the kernel does not show page faults on files",
        "test_events::test_each_sync_of_ext4": MODULES,
        "test_events::test_commits_after_a_remount": MODULES,
        "test_events::test_a_commit_by_the_timer": MODULES,
        "test_events::test_a_full_journal": MODULES,
        "test_events::test_requests_are_charged_to_the_commit": MODULES,
        "test_events::test_log_forces_of_xfs": MODULES,
        "test_events::test_commits_of_btrfs": "the kernel counts no commits of Btrfs",
        "test_events::test_the_metadata_of_ext4": STORAGE,
        **OLDER_EVENTS,
    },
    "6.1": {
        "test_critical_path::test_path_covers_all_of_a_slowed_thread_s_time[write]": SLOWED,
        "test_critical_path::test_reclaim_and_throttling": SLOWED,
        **RECLAIM,
        **OLDER_EVENTS,
    },
    "6.12": {"test_events::test_windows_of_readahead": WINDOWS, **RECLAIM},
    "7.2": RECLAIM,
}
# On any kernel, where the machine has no KVM.
SLOW = "emulated CPUs"


@dataclass(frozen=True)
class Found:
    """What the tests inside a kernel's machine found."""

    kernel: str
    cases: list[Case]


@pytest.fixture(scope="module", params=KERNELS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    run = tmp_path_factory.mktemp(f"explain-{request.param}-")
    with inside(run, request.param, [f"tests/collectors/{file}.py" for file in FILES]) as machine:
        machine.wait(SECONDS)
        yield Found(request.param, machine.cases())


def lacks(kernel: str, case: Case) -> bool:
    """Return whether a test was skipped for what the kernel is known to lack."""
    path = f"{case.file}::{case.name}"
    reasons = [SLOW, *(why for name, why in LACKS[kernel].items() if path.startswith(name))]
    return case.outcome == "skipped" and any(reason in case.text for reason in reasons)


@pytest.mark.parametrize("file", FILES)
def test_suite_holds_on_each_kernel(found: Found, file: str) -> None:
    cases = [case for case in found.cases if case.file == file]
    bad = [case for case in cases if case.outcome != "passed" and not lacks(found.kernel, case)]
    assert not bad, "\n".join(f"{case.name} {case.outcome}: {case.text}" for case in bad)
    assert cases, "nothing ran"


def test_no_kernel_shows_what_it_is_said_to_lack(found: Found) -> None:
    """A kernel that shows it after all is asked for it from then on."""
    skipped = [case for case in found.cases if case.outcome == "skipped"]
    for name, reason in LACKS[found.kernel].items():
        assert any(
            f"{case.file}::{case.name}".startswith(name) and reason in case.text for case in skipped
        ), name
