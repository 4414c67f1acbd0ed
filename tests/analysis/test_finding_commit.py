# SPDX-License-Identifier: BSD-2-Clause
"""fsync() and synchronous writes of the workload, and other processes' syncs: whose time is whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings.commit import find as find_commit
from analysis.findings.finding import Certainty
from analysis.findings.foreign_commit import RULES as FOREIGN_RULES
from analysis.findings.foreign_commit import find as find_foreign
from analysis.findings.sync_write import find as find_sync_write
from analysis.measures.ledger import THREADS
from analysis.measures.waits.explained import FOREIGN, PLAIN, SYNC_CALL, SYNC_WRITE, kind_of
from analysis.rundir import tested
from tests.analysis import device_cases
from tests.analysis.device_cases import one
from tests.analysis.synthetic import request
from tests.analysis.waiting_runs import APP, BEGIN, JBD2, MS, OTHER, SYSCALL, Sleep, case_of, event

# as recorded on 6.18
COMMIT = ("__schedule+0x618", "schedule+0x23", "jbd2_log_wait_commit+0xc2", "ext4_sync_file+0x1f2")
FSYNC = (*COMMIT, "do_fsync+0x3b", "__x64_sys_fsync+0xf", *SYSCALL)
OSYNC = (*COMMIT, "ext4_buffered_write_iter+0x9d", "vfs_write+0x22f", "ksys_write+0x66", *SYSCALL)
DATA = ("schedule+0x23", "io_schedule+0x3f", "folio_wait_bit+0xd6", "folio_wait_writeback+0x2a")
DATA = (*DATA, "__filemap_fdatawait_range+0x7c", "file_write_and_wait_range+0x8f")  # type: ignore[assignment]
DATA = (*DATA, "ext4_sync_file+0xa0", "do_fsync+0x3b", "__x64_sys_fsync+0xf", *SYSCALL)  # type: ignore[assignment]
GET_WRITE = ("schedule+0x23", "bit_wait_io+0xd", "do_get_write_access+0x277", "ext4_add_entry+0x213")
GET_WRITE = (*GET_WRITE, "__x64_sys_openat+0x5d", *SYSCALL)  # type: ignore[assignment]
HANDLE = ("schedule+0x23", "wait_transaction_locked+0x83", "start_this_handle+0x11e", "ext4_create+0x101")
HANDLE = (*HANDLE, "__x64_sys_openat+0x5d", *SYSCALL)  # type: ignore[assignment]


def commit(begin: int, end: int, asker: int, call: str, why: str = "fsync") -> dict[str, Any]:
    return event("jbd2_commit", why, begin, end, asker_tid=1000 + asker, asker_call=call, bytes=4096)


def calls(name: str, count: int, total_ms: int) -> list[dict[str, Any]]:
    return [{"bin_ns": BEGIN, "call": name, "count": count, "total_ns": total_ms * MS, "max_ns": MS}]


def test_own_fsyncs_are_found_with_their_parts(tmp_path: Path) -> None:
    sleeps = [Sleep(100, 150, DATA, state="io_wait"), Sleep(150.1, 400, FSYNC), Sleep(500, 800, FSYNC)]
    flushes = [
        request(BEGIN + t * MS, 0, 0, op="flush", complete_ns=BEGIN + (t + 20) * MS) for t in (200, 600)
    ]
    case = case_of(
        tmp_path / "run",
        sleeps,
        event=[commit(150, 400, APP, "fsync"), commit(500, 800, APP, "fsync")],
        call=calls("fsync", 2, 620),
        block=flushes,
    )
    (finding,) = find_commit(case)
    assert finding.what == "2 fsync() of its own made it wait: 0.62 s of 1.00 s (62 %)."
    assert finding.cost.low_s == pytest.approx(0.6, abs=0.002)
    assert finding.because[0] == "Asleep in them 0.60 s: the journal commit 0.55 s, its data 0.05 s."
    assert "2 flushes of the disk's cache, 20.0 ms each" in finding.because[2]
    assert finding.certainty == Certainty.SURE
    assert find_foreign(case) == []
    assert find_sync_write(case) == []


def test_synchronous_writes_are_found(tmp_path: Path) -> None:
    sleeps = [Sleep(t, t + 80, OSYNC) for t in range(100, 900, 100)]
    case = case_of(tmp_path / "run", sleeps, call=calls("write", 8, 660))
    (finding,) = find_sync_write(case)
    assert finding.what == "8 write() were synchronous (O_SYNC or alike): 0.66 s of 1.00 s (66 %)."
    assert finding.cost.low_s == pytest.approx(0.64, abs=0.002)
    assert find_commit(case) == []


def test_plain_writes_beside_synchronous_ones_do_not_count(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", [Sleep(100, 300, OSYNC)], call=calls("write", 1000, 600))
    (finding,) = find_sync_write(case)
    assert finding.cost.value_s == pytest.approx(0.2, abs=0.002)


def test_anothers_commit_before_ones_own_is_the_others_fault(tmp_path: Path) -> None:
    """The first sleep is until another's commit ends, and the call goes on to sleep for its own."""
    case = case_of(
        tmp_path / "run",
        [
            Sleep(100, 400, FSYNC),
            Sleep(400.1, 600, FSYNC),
            Sleep(700, 750, GET_WRITE),
            Sleep(800, 900, HANDLE),
        ],
        event=[
            commit(100, 400, OTHER, "none"),
            commit(400, 600, APP, "fsync"),
            commit(700, 750, OTHER, "none"),
            commit(800, 900, OTHER, "none"),
        ],
        call=calls("fsync", 1, 510),
    )
    (foreign,) = find_foreign(case)
    assert foreign.what == "Syncs of other programs (storm) held it up: 0.45 s of 1.00 s (45 %)."
    assert (
        foreign.because[0]
        == "3 of 4 journal commits (75 %) began for others: storm (thread 1003) 3 (fsync 3)."
    )
    (own,) = find_commit(case)
    assert own.cost.value_s == pytest.approx(0.51 - 0.3, abs=0.002)
    assert JBD2 not in (APP, OTHER)


def test_commits_of_another_file_system_hold_nobody_up(tmp_path: Path) -> None:
    """A program syncs on another disk meanwhile."""
    sleeps = [Sleep(100, 300, DATA, state="io_wait"), Sleep(300.1, 600, FSYNC)]
    theirs = [commit(t, t + 90, OTHER, "none") | {"dev": 259 << 20} for t in range(50, 600, 100)]
    events = [commit(310, 600, APP, "fsync"), *theirs]
    case = case_of(tmp_path / "run", sleeps, event=events, call=calls("fsync", 1, 510))
    assert tested.tested_filesystem(case.run).own_numbers
    assert find_foreign(case) == []
    (own,) = find_commit(case)
    assert own.cost.value_s == pytest.approx(0.51, abs=0.002)


def test_commit_of_the_file_system_is_nobodys_fault(tmp_path: Path) -> None:
    """A timer began it: no other process waits for it."""
    case = case_of(
        tmp_path / "run", [Sleep(100, 400, HANDLE)], event=[commit(100, 400, 0, "none", why="timer")]
    )
    assert find_foreign(case) == []


def test_anothers_commit_that_has_the_workloads_own_data_is_its_own(tmp_path: Path) -> None:
    """Nothing follows: the commit that another asked for was the one that the call needed."""
    case = case_of(tmp_path / "run", [Sleep(100, 400, FSYNC)], event=[commit(100, 400, OTHER, "none")])
    assert find_foreign(case) == []
    assert len(find_commit(case)) == 1


def test_own_data_beside_anothers_commit_wait_for_it(tmp_path: Path) -> None:
    """The disk writes and flushes the other's commit while the call waits for its data."""
    sleeps = [Sleep(100, 300, DATA, state="io_wait"), Sleep(300.1, 600, FSYNC)]
    commits = [commit(50, 310, OTHER, "none"), commit(310, 600, APP, "fsync")]
    case = case_of(tmp_path / "run", sleeps, event=commits, call=calls("fsync", 1, 510))
    (foreign,) = find_foreign(case)
    assert foreign.cost.value_s == pytest.approx(0.2, abs=0.002)
    (own,) = find_commit(case)
    assert own.cost.value_s == pytest.approx(0.31, abs=0.002)


XFS_FSYNC = ("xfs_file_fsync+0x1d2", "do_fsync+0x3b", "__x64_sys_fsync+0xf", *SYSCALL)
FORCE = ("schedule+0x23", "xlog_wait_on_iclog+0x17c", "xfs_log_force_seq+0x89", *XFS_FSYNC)
FLUSH = ("schedule+0x23", "submit_bio_wait+0x1", "blkdev_issue_flush+0x1", *XFS_FSYNC)


def force(begin: int, own: int, end: int, tid: int, call: str) -> dict[str, Any]:
    """A log force that waits for its log buffer's write from `own` on."""
    more = {"p1_ns": (own - begin) * MS, "p2_ns": (end - own) * MS}
    return event("xfs_log_force", "fsync", begin, end, tid=tid, asker_tid=tid, asker_call=call) | more


def test_log_force_ahead_of_ones_own_is_the_others(tmp_path: Path) -> None:
    """XFS: the other's log write ends 200 ms into the workload's force, of 500 ms."""
    forces = [force(50, 60, 300, 1000 + OTHER, "none"), force(99, 300, 600, 1000 + APP, "fsync")]
    forces += [force(150, 300, 700, 1000 + OTHER, "none")]  # behind it
    case = case_of(tmp_path / "run", [Sleep(100, 600, FORCE)], event=forces, call=calls("fsync", 1, 510))
    (foreign,) = find_foreign(case)
    assert foreign.cost.low_s == pytest.approx(0.2, abs=0.002)
    assert foreign.cost.value_s == pytest.approx(0.2, abs=0.002)
    (own,) = find_commit(case)
    assert own.cost.value_s == pytest.approx(0.31, abs=0.002)


@pytest.mark.parametrize(("tid", "foreign_s"), [(1000 + OTHER, 0.1), (1000 + JBD2, 0.0)])
def test_a_log_write_that_both_need_is_ones_own_and_a_further_flush_is_not(
    tmp_path: Path, tid: int, foreign_s: float
) -> None:
    """XFS flushes once more, as another's force wrote the workload's changes."""
    call = "none" if tid == 1000 + OTHER else "fsync"
    forces = [force(50, 60, 300, tid, call), force(99, 99, 300, 1000 + APP, "fsync")]
    sleeps = [Sleep(100, 300, FORCE), Sleep(301, 401, FLUSH)]
    case = case_of(tmp_path / "run", sleeps, event=forces, call=calls("fsync", 1, 310))
    found = find_foreign(case)
    assert sum(one.cost.value_s for one in found) == pytest.approx(foreign_s, abs=0.002)
    (own,) = find_commit(case)
    assert own.cost.value_s == pytest.approx(0.31 - foreign_s, abs=0.002)


BTRFS_FSYNC = (
    "btrfs_sync_log+0x600",
    "btrfs_sync_file+0x1",
    "do_fsync+0x3b",
    "__x64_sys_fsync+0xf",
    *SYSCALL,
)
LOG_BEFORE = ("schedule+0x1", "wait_log_commit+0x1", *BTRFS_FSYNC)
OWN_LOG = ("schedule+0x1", "wait_log_commit+0x1", "btrfs_sync_log+0x611", *BTRFS_FSYNC[1:])
SUPER = ("schedule+0x1", "folio_wait_bit_common+0x1", "write_all_supers+0x1", *BTRFS_FSYNC)


def test_another_process_that_ends_the_wait_had_the_log_before(tmp_path: Path) -> None:
    """Btrfs's fsyncs write the log for one another; there is no event. This one goes on to write its own."""
    sleeps = [Sleep(100, 400, LOG_BEFORE, waker=OTHER), Sleep(401, 600, SUPER)]
    (foreign,) = find_foreign(case_of(tmp_path / "run", sleeps))
    assert foreign.what == "Syncs of other programs (storm) held it up: 0.30 s of 1.00 s (30 %)."
    assert foreign.because[0] == "These ended its sleeps: storm 1."


def test_a_log_of_another_process_with_ones_own_changes_is_ones_own(tmp_path: Path) -> None:
    """Nothing below the sync follows, and the other process works for it all the time."""
    sleeps = [Sleep(100, 400, OWN_LOG, waker=OTHER), Sleep(401, 600, DATA)]
    case = case_of(tmp_path / "run", sleeps)
    assert find_foreign(case) == []
    (own,) = find_commit(case)
    assert own.cost.value_s == pytest.approx(0.5, abs=0.002)


@pytest.mark.parametrize(("begin", "finds"), [(50, True), (450, False)])
def test_a_lock_that_anothers_commit_holds_is_the_others(tmp_path: Path, begin: int, finds: bool) -> None:
    """Btrfs: a commit of another process holds the mutex of the tree log's superblock."""
    frames = (
        "schedule_preempt_disabled+0x1",
        "__mutex_lock+0x2",
        "btrfs_sync_log+0x1",
        "btrfs_sync_file+0x1",
    )
    fsync = (*frames, "do_fsync+0x3b", "__x64_sys_fsync+0xf", *SYSCALL)
    asked = {"asker_tid": 1000 + OTHER, "asker_call": "none", "tid": 1000 + OTHER}
    commits = [event("btrfs_commit", "asked", begin, begin + 400, **asked)]
    case = case_of(tmp_path / "run", [Sleep(100, 400, fsync, waker=OTHER)], event=commits)
    found = find_foreign(case)
    assert bool(found) == finds
    if finds:
        assert found[0].cost.value_s == pytest.approx(0.3, abs=0.002)


@pytest.mark.parametrize(
    ("frames", "cause", "call", "kind"),
    [
        (FSYNC, "commit", "fsync", SYNC_CALL),
        (OSYNC, "commit", "write", SYNC_WRITE),
        (COMMIT, "commit", "", SYNC_CALL),  # its outermost functions were not recorded
        ((*COMMIT, "ext4_buffered_write_iter+0x9d"), "commit", "", SYNC_WRITE),
        (HANDLE, "handle", "openat", PLAIN),
        (FSYNC, "throttle", "fsync", PLAIN),
        ((), "no_stack", "", PLAIN),
    ],
)
def test_kind_by_call_path(frames: tuple[str, ...], cause: str, call: str, kind: str) -> None:
    assert kind_of(frames, cause, call) == kind


def test_where_most_of_the_path_is_not_known_the_threads_times_tell(tmp_path: Path) -> None:
    """Switches were given up for 600 of 1,000 ms: of others' syncs there is no verdict then."""
    gap = {"start_ns": BEGIN + 300 * MS, "end_ns": BEGIN + 900 * MS, "switches": 9, "why": "budget"}
    slept = {"thread": APP, "bin_ns": BEGIN, "state": "blocked", "ns": 800 * MS, "stack_id": 1}
    case = case_of(tmp_path / "run", [Sleep(100, 250, FSYNC)], sched_window=[gap], thread_time=[slept])
    assert case.ledger.basis == THREADS
    assert "60 %" in case.ledger.why_not
    assert len(find_commit(case)) == 1
    (rule,) = FOREIGN_RULES
    assert rule.why_not is not None
    assert rule.why_not(case) == "no critical path"


def test_a_log_buffer_before_ones_own_is_anothers_by_who_sent_it(tmp_path: Path) -> None:
    """Of a storm of log forces events are lost: the call path and the request tell, too."""
    theirs, own = (one(5000, op="write", class_="journal", submitter=who) for who in ("other", "workload"))
    requests = [theirs | {"wait": "log before"}, own | {"wait": "log before"}, theirs | {"wait": "log"}]
    case = device_cases.case_of(tmp_path / "run", requests)
    assert case.sleeps is not None
    foreign = case.sleeps.of(FOREIGN)
    assert foreign.count == 1
    assert int(foreign.begin_ns[0]) == int(case.sleeps.begin_ns.min())
