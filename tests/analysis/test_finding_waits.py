# SPDX-License-Identifier: BSD-2-Clause
"""Throttling, reclaim, locks, open handles, reservations: each with its cause and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.findings import handle, kernel_wait, lock, page_io, reclaim, reservation, throttle
from analysis.findings.finding import Certainty
from tests.analysis.synthetic import request, run_json
from tests.analysis.waiting_runs import APP, BEGIN, MS, OTHER, SYSCALL, Sleep, case_of, event

# as recorded on 6.18
WRITE = ("ext4_buffered_write_iter+0x9d", "vfs_write+0x22f", "ksys_write+0x66", *SYSCALL)
OPEN = ("path_openat+0x4e6", "do_filp_open+0xc3", "do_sys_openat2+0x6e", "__x64_sys_openat+0x5d", *SYSCALL)
THROTTLE = ("schedule+0x23", "io_schedule_timeout+0x1", "balance_dirty_pages+0x1", *WRITE)
FAULT = ("io_schedule+0x1", "folio_wait_bit_common+0x2", "__folio_lock_or_retry+0x3", "filemap_fault+0x4")
RECLAIM = ("schedule_timeout+0x77", "reclaim_throttle+0x184", "shrink_lruvec+0xc84", "try_charge_memcg+0x1b0")
RECLAIM = (*RECLAIM, "try_to_free_mem_cgroup_pages+0x101", *WRITE)  # type: ignore[assignment]
READ = ("io_schedule+0x3f", "folio_wait_bit_common+0x110", "filemap_get_pages+0x749", "vfs_read+0x23a")
READ = (*READ, "__x64_sys_pread64+0xa3", *SYSCALL)  # type: ignore[assignment]
RWSEM = ("schedule_preempt_disabled+0x11", "rwsem_down_write_slowpath+0x1e0", "down_write+0x66", *OPEN)
HANDLE = (
    "schedule+0x23",
    "wait_transaction_locked+0x83",
    "start_this_handle+0x11e",
    "ext4_create+0x101",
    *OPEN,
)
TICKET = ("schedule+0x23", "__reserve_bytes+0x425", "btrfs_reserve_metadata_bytes+0x1b", *OPEN)
FIVE = range(100, 600, 100)


def limited() -> dict[str, Any]:
    found = run_json(1.1)
    found["words"] = {"FS": "ext4", "MEM": "64M"}
    found["workload"]["mem_bytes"] = 64 << 20
    return found


def levels(dirty: int) -> list[dict[str, Any]]:
    rows = ((name, t) for t in range(0, 1000, 10) for name in ("mem.dirty_bytes", "mem.writeback_bytes"))
    return [{"t_ns": BEGIN + t * MS, "name": name, "value": dirty} for name, t in rows]


def test_throttled_writer_is_found_with_the_level_of_dirty_pages(tmp_path: Path) -> None:
    sleeps = [Sleep(t, t + 80, THROTTLE, state="io_wait") for t in FIVE]
    case = case_of(tmp_path / "run", sleeps, counter=levels(4 << 20))
    (finding,) = throttle.find(case)
    assert finding.what == "Writers were held back for too many dirty pages: 0.40 s of 1.00 s (40 %)."
    assert finding.because[0] == "5 pauses of its writes, 0.40 s in all, the longest 0.08 s."
    assert "At most 8.39 MB were dirty" in finding.because[1]
    assert finding.certainty == Certainty.SURE
    assert finding.remedy is not None
    assert finding.remedy.words == {"DIRTY": "1638M"}  # a fifth of the memory
    assert not finding.test  # make verify tries the remedy


@pytest.mark.parametrize(
    ("own", "others", "words"),
    [
        (1 << 20, 100 << 20, ", most of them other programs' (storm)"),  # of 8 MiB dirty, at least 7 others'
        (50 << 20, 100 << 20, ", likely most of them other programs' (storm)"),  # by what each made dirty
        (100 << 20, 50 << 20, ""),
        (100 << 20, 1 << 20, ""),
    ],
)
def test_throttling_says_whose_pages_were_dirty(tmp_path: Path, own: int, others: int, words: str) -> None:
    sleeps = [Sleep(t, t + 80, THROTTLE, state="io_wait") for t in FIVE]
    dirtied = {APP: own, OTHER: others}
    case = case_of(tmp_path / "run", sleeps, counter=levels(4 << 20), dirtied=dirtied)
    (finding,) = throttle.find(case)
    assert finding.what == f"Writers were held back for too many dirty pages{words}: 0.40 s of 1.00 s (40 %)."
    text = " ".join(finding.because)
    assert ("by others: storm" in text) == (others > 1 << 20)
    surely = "So at least 7.34 MB of the 8.39 MB dirty in the pauses were others'."
    assert (surely in text) == (own == 1 << 20)
    assert (finding.remedy is None) == bool(words)


def test_throttling_by_a_memory_limit_names_the_limit(tmp_path: Path) -> None:
    case = case_of(tmp_path / "run", [Sleep(100, 500, THROTTLE)], run=limited())
    (finding,) = throttle.find(case)
    assert finding.remedy is not None
    assert finding.remedy.words == {"MEM": ""}
    assert "67.1 MB (MEM=)" in finding.because[-1]


def test_reclaim_has_its_cpu_time_and_what_is_read_again(tmp_path: Path) -> None:
    """Asleep 100 ms in reclaim that takes 200 ms, and 300 ms for reads of pages that were there before."""
    rounds = [event("direct_reclaim", "memcg", 50, 250, tid=1000 + APP, pages=1000)]
    first = [request(BEGIN + MS, 800, 8192, op="write", complete_ns=BEGIN + 2 * MS) | {"class": "data"}]
    again = [
        request(BEGIN + 400 * MS, 800, 8192, op="read", complete_ns=BEGIN + 700 * MS) | {"class": "data"}
    ]
    other = [
        request(BEGIN + 400 * MS, 8000, 8192, op="read", complete_ns=BEGIN + 410 * MS) | {"class": "data"}
    ]
    sleeps = [Sleep(100, 200, RECLAIM), Sleep(400, 700, READ, state="io_wait")]
    case = case_of(tmp_path / "run", sleeps, run=limited(), event=rounds, block=[*first, *again, *other])
    (finding,) = reclaim.find(case)
    assert finding.cost.low_s == pytest.approx(0.2, abs=0.002)
    assert finding.cost.value_s == pytest.approx(0.2 + 0.15, abs=0.002)  # half of the bytes
    assert finding.what == "Memory was too small (67.1 MB): 0.35 s of 1.00 s (35 %)."
    assert finding.because[0].startswith(
        "It freed 4.10 MB itself in 1 rounds, 0.20 s together (asleep 0.10 s)"
    )
    assert "8.19 kB of the 16.4 kB" in finding.because[1]
    assert finding.remedy is not None


def test_reads_through_a_map_are_read_again_too(tmp_path: Path) -> None:
    rounds = [event("direct_reclaim", "memcg", 50, 250, tid=1000 + APP, pages=1000)]
    block = [
        request(BEGIN + t * MS, 800, 4096, op="read", complete_ns=BEGIN + (t + 100) * MS) | {"class": "data"}
        for t in (100, 400)
    ]
    case = case_of(tmp_path / "run", [Sleep(400, 700, FAULT, state="io_wait")], event=rounds, block=block)
    (finding,) = reclaim.find(case)
    assert finding.cost.value_s == pytest.approx(0.2 + 0.15, abs=0.002)
    assert "fault" in finding.lines


def test_reclaim_of_another_process_is_none(tmp_path: Path) -> None:
    rounds = [event("direct_reclaim", "memcg", 50, 250, tid=1000 + OTHER, pages=1000)]
    case = case_of(tmp_path / "run", [Sleep(400, 700, READ, state="io_wait")], event=rounds)
    assert reclaim.find(case) == []


def waits(ns: int, **more: Any) -> dict[str, Any]:
    row = {"bin_ns": BEGIN, "lock_id": 5, "stack_id": 1, "mode": "write", "kind": "rwsem", "count": 3}
    return row | {"sleep_ns": ns, "spin_ns": 0, "max_ns": ns, "in_workload": 1, "waiter": "workload"} | more


NAMES = [
    {
        "lock_id": 5,
        "kind": "rwsem",
        "name": "inode.i_rwsem",
        "slab": "",
        "member": "",
        "address": "",
        "ino": 77,
    }
]
NAMES[0] |= {"dev": "7:3", "named_by": "slab", "type": "inode"}


def test_lock_is_found_with_its_name(tmp_path: Path) -> None:
    sleeps = [Sleep(t, t + 80, RWSEM, waker=OTHER) for t in FIVE]
    case = case_of(tmp_path / "run", sleeps, lock_wait=[waits(410 * MS)], lock=NAMES)
    (finding,) = lock.find(case)
    what = "A lock held by other programs (storm), rwsem inode.i_rwsem: 0.40 s of 1.00 s (40 %)."
    assert finding.what == what
    assert finding.cost.value_s == pytest.approx(0.4, abs=0.002)
    assert finding.cost.high_s == pytest.approx(0.41, abs=0.002)
    assert "inode 77" in finding.because[1]
    assert finding.certainty == Certainty.SURE


def test_lock_within_the_workload_is_not_others(tmp_path: Path) -> None:
    sleeps = [Sleep(t, t + 80, RWSEM, waker=APP + 1) for t in FIVE]
    case = case_of(tmp_path / "run", sleeps, lock_wait=[waits(410 * MS)], lock=NAMES)
    (finding,) = lock.find(case)
    assert finding.what == "A lock, rwsem inode.i_rwsem: 0.40 s of 1.00 s (40 %)."


def test_lock_whose_holder_waits_for_journal_room_is_none(tmp_path: Path) -> None:
    """Another thread of the workload is in a checkpoint for want of room all the while."""
    room = event("jbd2_checkpoint", "space", 50, 990, tid=1000 + OTHER, asker_tid=1, asker_call="open")
    sleeps = [Sleep(t, t + 80, RWSEM, waker=OTHER) for t in FIVE]
    case = case_of(tmp_path / "run", sleeps, lock_wait=[waits(410 * MS)], lock=NAMES, event=[room])
    assert case.sleeps is not None
    # a holder that works keeps the lock by itself: whoever woke the sleeper was asleep in these waits
    asleep = case.sleeps.of("log_space").total_ns + case.sleeps.of("", "lock").total_ns
    assert asleep == pytest.approx(400 * MS, abs=MS)


def test_open_handles_of_others(tmp_path: Path) -> None:
    commits = [event("jbd2_commit", "size", 100, 500, p3_ns=390 * MS)]
    case = case_of(tmp_path / "run", [Sleep(100, 500, HANDLE)], event=commits)
    (finding,) = handle.find(case)
    assert finding.what == "Threads waited for others' open journal handles: 0.40 s of 1.00 s (40 %)."
    assert finding.because[1] == "1 commits waited 0.39 s until all handles were closed."


def test_metadata_that_a_commit_writes(tmp_path: Path) -> None:
    frames = ("bit_wait_io+0xd", "do_get_write_access+0x277", "ext4_add_entry+0x213", *OPEN)
    (finding,) = page_io.find(case_of(tmp_path / "run", [Sleep(100, 500, frames, state="io_wait")]))
    assert finding.what == "Writers waited for pages or buffers in I/O: 0.40 s of 1.00 s (40 %)."
    assert "metadata that a commit is writing to the journal 0.40 s" in finding.because[1]


def test_other_kernel_work_by_function(tmp_path: Path) -> None:
    rcu = ("schedule_timeout+0x1", "wait_for_completion+0x86", "synchronize_rcu_normal+0x83", *OPEN)
    gc = ("schedule_timeout+0x1", "__flush_work+0x86", "xfs_inodegc_queue+0x83", *OPEN)
    case = case_of(tmp_path / "run", [Sleep(100, 500, gc), Sleep(600, 800, rcu), Sleep(850, 855, rcu)])
    first, second = kernel_wait.find(case)
    assert first.cost.value_s == pytest.approx(0.4, abs=0.002)
    assert "synchronize_rcu_normal()" in second.what
    assert second.because[0].startswith("2 sleeps, the longest 0.20 s")


def test_reservations(tmp_path: Path) -> None:
    facts = run_json(1.1)
    facts["filesystem"]["space"] = {"after_run": {"used_bytes": 900, "total_bytes": 1000}}
    tickets = [event("btrfs_ticket", "space", t, t + 80, tid=1000 + APP, bytes=1 << 20) for t in FIVE]
    sleeps = [Sleep(t, t + 80, TICKET) for t in FIVE]
    case = case_of(tmp_path / "run", sleeps, run=facts, event=tickets)
    (finding,) = reservation.find(case)
    assert (
        finding.what == "Writers waited for room in the file system's reservations: 0.40 s of 1.00 s (40 %)."
    )
    assert "5 tickets for 5.24 MB" in finding.because[1]
    assert "At the end 900 B of 1.00 kB were used (90 %)." in finding.because
    assert finding.certainty == Certainty.SURE


@pytest.mark.parametrize("rule", [handle, kernel_wait, lock, page_io, reclaim, reservation, throttle])
def test_run_without_such_waits_has_none(tmp_path: Path, rule: Any) -> None:
    frames = ("schedule+0x1", "do_nanosleep+0x1", "__x64_sys_clock_nanosleep+0x1", *SYSCALL)
    assert rule.find(case_of(tmp_path / "run", [Sleep(100, 600, frames)])) == []


def test_each_instant_belongs_to_one_kind(tmp_path: Path) -> None:
    """All sleeps of the path are in the partition once, whatever explains them."""
    frames = [THROTTLE, RECLAIM, READ, RWSEM, HANDLE, TICKET]
    sleeps = [Sleep(t, t + 50, frames[i % len(frames)]) for i, t in enumerate(range(50, 900, 100))]
    case = case_of(tmp_path / "run", sleeps)
    assert case.sleeps is not None
    parts = [case.sleeps.of(kind).total_ns for kind in case.sleeps.explained.labels]
    assert sum(parts) == case.sleeps.total_ns == 9 * 50 * MS
