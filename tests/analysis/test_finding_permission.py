# SPDX-License-Identifier: BSD-2-Clause
"""Another program that is asked for its permission at each open(), and a run without."""

from __future__ import annotations

from pathlib import Path

from analysis.findings import file_lock, permission
from analysis.findings.finding import Certainty
from tests.analysis.waiting_runs import OTHER, SYSCALL, Sleep, case_of

ASKED = ("schedule+0x23", "fanotify_handle_event+0xb93", "fsnotify+0x392", "__x64_sys_openat+0x5d", *SYSCALL)
READ = ("io_schedule+0x3f", "folio_wait_bit_common+0x110", "filemap_get_pages+0x749", *SYSCALL)


def test_who_gives_the_permission_is_named(tmp_path: Path) -> None:
    sleeps = [Sleep(100, 300, ASKED, OTHER, "sleeping"), Sleep(400, 700, ASKED, OTHER, "sleeping")]
    case = case_of(tmp_path / "run", sleeps)
    (finding,) = permission.find(case)
    assert (
        finding.what == "The workload waited for the permission of storm (fanotify): 0.50 s of 1.00 s (50 %)."
    )
    assert finding.because[0] == "2 sleeps in open(), 0.25 s each (mean)."
    assert finding.because[1] == "Given by: storm 2 times."
    assert finding.certainty == Certainty.SURE and finding.lines == {"permission"}
    assert not file_lock.find(case)


def test_without_being_asked_there_is_no_finding(tmp_path: Path) -> None:
    assert not permission.find(case_of(tmp_path / "run", [Sleep(100, 300, READ, state="io_wait")]))
