# SPDX-License-Identifier: BSD-2-Clause
"""open() that waits for a commit, with the mount option that makes it so; syncs are other findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.findings import metadata_sync
from analysis.findings.finding import Certainty
from tests.analysis.synthetic import run_json
from tests.analysis.waiting_runs import APP, OTHER, SYSCALL, Sleep, case_of, event

COMMIT = ("schedule+0x23", "jbd2_log_wait_commit+0xc2", "jbd2_journal_stop+0x180", "__ext4_journal_stop+0x3c")
OPEN = (*COMMIT, "ext4_create+0x101", "path_openat+0x4e6", "__x64_sys_openat+0x5d", *SYSCALL)
FSYNC = (
    "schedule+0x23",
    "jbd2_log_wait_commit+0xc2",
    "ext4_sync_file+0x1f2",
    "__x64_sys_fsync+0xf",
    *SYSCALL,
)
SLEEPS = [Sleep(100, 300, OPEN), Sleep(400, 700, OPEN)]


def mounted(options: str) -> dict[str, Any]:
    facts = run_json(1.1)
    facts["filesystem"]["proc_mounts"] = f"/dev/loop3 /mnt ext4 {options}"
    return facts


def test_the_mount_option_is_named(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", SLEEPS, run=mounted("rw,relatime,rw,dirsync"))
    (finding,) = metadata_sync.find(case)
    text = "2 times open() waited for a commit (mounted with dirsync): 0.50 s of 1.00 s (50 %)."
    assert finding.what == text
    assert finding.certainty == Certainty.SURE and finding.lines == {"commit"}
    assert finding.test.startswith("without dirsync: ")


def test_without_the_option_it_is_only_a_commit(tmp_path: Path) -> None:
    (finding,) = metadata_sync.find(case_of(tmp_path / "run", SLEEPS, run=mounted("rw,relatime")))
    assert finding.what == "2 times open() waited for a commit: 0.50 s of 1.00 s (50 %)."


def test_syncs_and_commits_of_others_are_other_findings(tmp_path: Path) -> None:
    assert not metadata_sync.find(case_of(tmp_path / "a", [Sleep(100, 300, FSYNC)]))
    asked = [event("jbd2_commit", "fsync", 90, 310, asker_tid=1000 + OTHER, asker_call="none", bytes=4096)]
    assert not metadata_sync.find(case_of(tmp_path / "b", [Sleep(100, 300, OPEN)], event=asked))
    own = [event("jbd2_commit", "synchronous", 90, 310, asker_tid=1000 + APP, asker_call="open", bytes=4096)]
    assert metadata_sync.find(case_of(tmp_path / "c", [Sleep(100, 300, OPEN)], event=own))
