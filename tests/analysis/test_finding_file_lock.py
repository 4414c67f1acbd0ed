# SPDX-License-Identifier: BSD-2-Clause
"""A file lock that another program has, and a run without."""

from __future__ import annotations

from pathlib import Path

from analysis.findings import file_lock
from analysis.findings.finding import Certainty
from tests.analysis.waiting_runs import OTHER, SYSCALL, Sleep, case_of

FLOCK = ("schedule+0x23", "flock_lock_inode_wait+0x1b4", "__x64_sys_flock+0x15e", *SYSCALL)
FCNTL = ("schedule+0x23", "fcntl_setlk+0x2a2", "do_fcntl+0x5f0", "__x64_sys_fcntl+0x91", *SYSCALL)
READ = ("io_schedule+0x3f", "folio_wait_bit_common+0x110", "filemap_get_pages+0x749", *SYSCALL)


def test_waits_for_flock_and_fcntl_name_who_had_the_lock(tmp_path: Path) -> None:
    sleeps = [Sleep(100, 300, FLOCK, OTHER, "sleeping"), Sleep(400, 700, FCNTL, OTHER, "sleeping")]
    case = case_of(tmp_path / "run", sleeps)
    (finding,) = file_lock.find(case)
    text = "The workload waited for a file lock that storm, another program, had: 0.50 s of 1.00 s (50 %)."
    assert finding.what == text
    assert "2 sleeps in fcntl() 0.30 s, flock() 0.20 s; the longest took 0.30 s." in finding.because[0]
    assert finding.because[1] == "Who gave the lock up: storm 2 times."
    assert finding.certainty == Certainty.SURE and finding.lines == {"file_lock"}


def test_without_file_locks_there_is_no_finding(tmp_path: Path) -> None:
    assert not file_lock.find(case_of(tmp_path / "run", [Sleep(100, 300, READ, state="io_wait")]))
