# SPDX-License-Identifier: BSD-2-Clause
"""Write-back is others' by file, and where the workload made little dirty; else it stays the workload's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings.other_requests import RULES
from analysis.measures.at_device.written_for import own_dirtied
from analysis.tables import thread
from tests.analysis.device_cases import case_of, found_by, one
from tests.analysis.thread_tables import thread_row

READS = [one(5000 if i % 2 else 500, wait="direct") for i in range(200)]


def written_back(ino: int = 50, **columns: Any) -> list[dict[str, Any]]:
    """Large writes of a kernel thread, one under way with each slow read."""
    rows = []
    for i in range(1, 200, 2):
        at = (i // 2) * (525 + 525 + 4500 + 44) + 567
        row = {"queue_us": at, "issue_us": at + 2, "complete_us": at + 5000, "ino": ino}
        rows.append(row | {"submitter": "kernel_thread", "comm": b"kworker/u8:1"} | columns)
    return rows


def threads(own: int, others: int) -> list[dict[str, Any]]:
    """The workload's thread and a program beside, with the bytes that they made dirty."""
    app = {"thread": 1, "tid": 1001, "comm": "app", "role": "workload", "write_bytes": own}
    dd = {"thread": 2, "tid": 77, "comm": "dd", "role": "other", "write_bytes": others, "process": "dd"}
    return [thread_row(row) for row in (app, dd)]


@pytest.mark.parametrize(("own", "finds"), [(4096, True), (100 << 20, False)])
def test_who_made_little_dirty_did_not_write_it(tmp_path: Path, own: int, finds: bool) -> None:
    case = case_of(tmp_path / "run", READS, written_back(), thread=threads(own, 100 << 20))
    assert own_dirtied(case.tables.get(thread.TABLE)) == own
    found = found_by(RULES, case)
    assert bool(found) == finds
    if finds:
        assert "dd (by kernel write-back)" in found[0].what
        text = "Made dirty on all file systems: by the workload 4.10 kB; by others: dd 105 MB."
        assert text in found[0].because


def test_a_file_with_more_than_the_workload_made_dirty_is_not_its_own(tmp_path: Path) -> None:
    moved = len(written_back()) << 20  # bytes
    for own, finds in ((moved // 3, True), (moved, False)):
        case = case_of(tmp_path / str(own), READS, written_back(50), thread=threads(own, 2 * moved))
        assert bool(found_by(RULES, case)) == finds


def test_what_went_to_its_own_files_is_not_elsewhere(tmp_path: Path) -> None:
    """The workload made half of all dirty, and its own writes account for that, or for nothing of it."""
    back = [row for ino, row in enumerate(written_back(), 50) for row in [row | {"ino": ino}]]
    for size, finds in ((len(back) << 20, True), (4096, False)):
        own = [one(500, wait="direct", op="write", ino=12, bytes=size)]
        case = case_of(tmp_path / str(size), [*READS, *own], back, thread=threads(len(back) << 20, 1))
        assert bool(found_by(RULES, case)) == finds


def test_a_file_that_another_program_writes_to_is_written_back_for_it(tmp_path: Path) -> None:
    syncs = [row | {"submitter": "other"} for row in written_back(50)[:1]]
    case = case_of(tmp_path / "a", READS, written_back(50)[1:] + syncs, thread=threads(100 << 20, 0))
    assert found_by(RULES, case)
    own = [one(500, wait="direct", op="write", ino=50)]  # the workload does, too
    case = case_of(tmp_path / "b", [*READS, *own], written_back(50)[1:] + syncs, thread=threads(100 << 20, 0))
    assert not found_by(RULES, case)


@pytest.mark.parametrize(("charged", "own", "finds"), [("other", 100 << 20, True), ("workload", 0, False)])
def test_the_memory_cgroup_tells_whose_a_page_is(tmp_path: Path, charged: str, own: int, finds: bool) -> None:
    case = case_of(tmp_path / "run", READS, written_back(charged=charged), thread=threads(own, 100 << 20))
    assert bool(found_by(RULES, case)) == finds
