# SPDX-License-Identifier: BSD-2-Clause
"""A full journal: found with its stops, size, commits and cost; not where another's syncs filled it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings.finding import Certainty
from analysis.findings.foreign_commit import find as find_foreign
from analysis.findings.log_space import find
from analysis.measures.waits.journal import journal_of, larger_words
from analysis.rundir.run import Run
from tests.analysis.synthetic import run_json
from tests.analysis.waiting_runs import APP, BEGIN, MS, OTHER, SYSCALL, Sleep, case_of, event

FULL: tuple[str, ...] = (
    "schedule+0x1",
    "jbd2_log_wait_commit+0x2",
    "jbd2_log_do_checkpoint+0x3",
    "__jbd2_log_wait_for_space+0x4",
)
FULL += ("start_this_handle+0x1", "ext4_create+0x1", "__x64_sys_openat+0x5", *SYSCALL)
NANOSLEEP = ("schedule+0x1", "do_nanosleep+0x1", "__x64_sys_clock_nanosleep+0x1", *SYSCALL)
LONG = [Sleep(100, 300, FULL), Sleep(302, 350, FULL), Sleep(600, 800, FULL)]


def facts(**words: str) -> dict[str, Any]:
    """ext4 on a disk file of 12 GB, with a journal of 64 MiB."""
    found = run_json(1.1)
    found["words"] = {"FS": "ext4", **words}
    found["device"] |= {"kind": "file", "size_bytes": 12 << 30}
    extents = [[100, 100 + (64 << 11)]]
    areas = [{"name": "journal", "kind": "journal", "dev": "7:3", "extents": extents}]
    found["filesystem"] |= {"name": "ext4", "geometry": {"areas": areas, "spans": []}}
    return found


def commits(asker: int, call: str) -> list[dict[str, Any]]:
    return [
        event("jbd2_commit", "fsync", t, t + 50, asker_tid=1000 + asker, asker_call=call, bytes=1 << 20)
        for t in (100, 600)
    ]


def test_full_journal_is_found_with_its_stops(tmp_path: Path) -> None:
    calls = [
        {"bin_ns": BEGIN + t * MS, "call": "write", "count": 10, "bytes": 0 if 100 <= t < 350 else 10_000}
        for t in range(0, 600, 10)
    ]
    case = case_of(tmp_path / "run", LONG, run=facts(), event=commits(APP, "open"), call=calls)
    (finding,) = find(case)
    assert finding.what == "The journal of 67.1 MB was full 2 times: 0.45 s of 1.00 s (45 %)."
    assert finding.cost.value_s == pytest.approx(0.448, abs=0.002)
    assert finding.cost.low_s == finding.cost.value_s
    assert (finding.certainty, finding.doubt) == (Certainty.SURE, "")
    assert (
        finding.because[0]
        == "In open() 0.45 s it waited for room, 2 stops, the median 0.23 s, the longest 0.25 s."
    )
    assert "2 of 2 commits were under way" in finding.because[1]
    assert finding.where.start_ns == BEGIN + 100 * MS
    assert finding.lines == {"log_space"}
    assert finding.remedy is not None
    assert finding.remedy.words == {"MKFS": "-J size=1024"}
    assert finding.remedy.saved.low_s == 0 < finding.remedy.saved.high_s
    assert find_foreign(case) == []


@pytest.mark.parametrize(("inside", "what"), [(0, "was full 1 times: "), (5, "was full: ")])
def test_many_sleeps_are_a_stop_where_the_application_stood_still(
    tmp_path: Path, inside: int, what: str
) -> None:
    sleeps = [Sleep(t, t + 9.5, FULL) for t in range(100, 800, 10)]
    calls = [
        {"bin_ns": BEGIN + t * MS, "call": "write", "count": 10, "bytes": inside if 100 <= t < 800 else 10}
        for t in range(0, 1000, 100)
    ]
    (finding,) = find(case_of(tmp_path / "run", sleeps, run=facts(), call=calls))
    assert what in finding.what
    assert ("70 sleeps" in finding.because[0]) == bool(inside)


def test_other_waits_are_no_full_journal(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", [Sleep(100, 600, NANOSLEEP)], run=facts())
    assert find(case) == []


def test_short_wait_is_no_finding(tmp_path: Path) -> None:
    assert find(case_of(tmp_path / "run", [Sleep(100, 108, FULL)], run=facts())) == []


def test_journal_that_anothers_syncs_filled_is_the_others_fault(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", LONG, run=facts(), event=commits(OTHER, "none"))
    assert find(case) == []
    (finding,) = find_foreign(case)
    assert finding.cost.value_s == pytest.approx(0.448, abs=0.002)
    assert "2 of 2 journal commits (100 %) began for others: storm (thread 1003) 2" in finding.because[0]
    assert finding.certainty == Certainty.LIKELY


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        ({"FS": "ext4"}, "ext4", "-J size=1024"),
        ({"FS": "ext4", "MKFS": "-J size=4 -O ^dir_index"}, "ext4", "-O ^dir_index -J size=1024"),
        ({"FS": "xfs", "MKFS": "-l size=64m"}, "xfs", "-l size=1024m"),
        ({"FS": "btrfs"}, "btrfs", None),
        ({"FS": "ext4", "JOURNAL": "ram"}, "ext4", None),
    ],
)
def test_larger_journal_in_words(words: dict[str, str], kind: str, expected: str | None) -> None:
    found = facts()
    found["words"] = words
    found["filesystem"]["name"] = kind
    run = Run(Path("x"), found, {}, None, None)
    larger = larger_words(run, journal_of(run))
    assert (larger[0] if larger else None) == expected


@pytest.mark.parametrize(("disk", "words"), [(1 << 30, None), (3 << 30, "-J size=256")])
def test_larger_journal_fits_the_disk(disk: int, words: str | None) -> None:
    """An eighth of the disk at most, and four times what it was at least."""
    found = facts()
    found["device"]["size_bytes"] = disk
    run = Run(Path("x"), found, {}, None, None)
    larger = larger_words(run, journal_of(run))
    assert (larger[0] if larger else None) == words


@pytest.mark.parametrize(("others_ms", "is_named"), [(400, True), (60, False), (0, False)])
def test_others_that_wait_for_room_are_named(tmp_path: Path, others_ms: int, is_named: bool) -> None:
    row = {"bin_ns": BEGIN, "length_ns": 500 * MS, "ns": others_ms * MS, "thread": OTHER, "state": "io_wait"}
    times = [row | {"stack_id": 1}] if others_ms else None  # the call path of the workload's sleeps
    case = case_of(tmp_path / "run", LONG, run=facts(), thread_time=times)
    (finding,) = find(case)
    name = ", which other programs fill, too (storm)," if is_named else ""
    assert f"The journal of 67.1 MB{name} was full 2 times" in finding.what
    text = "Other programs waited for room in a journal, too: storm"
    assert any(text in one for one in finding.because) == bool(others_ms)
