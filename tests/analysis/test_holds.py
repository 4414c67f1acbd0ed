# SPDX-License-Identifier: BSD-2-Clause
"""Lockmeter's columns from known holds and waits, worked out by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from analysis.measures.locks.holds import NOT_NAMED, NOT_RECORDED, HoldRow, lockmeter_rows
from analysis.rundir.run import open_run
from analysis.tables.hold import Hold
from analysis.tables.load import load_tables
from analysis.tables.lock import NOTHING_KNOWN, Lock
from analysis.tables.lock_wait import LockWait
from analysis.tables.store import Categorical
from tests.analysis.synthetic import BIN_NS, START_NS, Spec

SECOND_NS = 1_000_000_000
KINDS = ("spinlock", "mutex", "rwsem")
MODES = ("excl", "read", "write")


def words(values: list[str], labels: tuple[str, ...]) -> Categorical:
    return Categorical(np.array([labels.index(value) for value in values], dtype=np.int32), labels)


def named(name: str) -> Lock:
    return dataclasses.replace(NOTHING_KNOWN, name=name, named_by="slab")


def holds(*rows: tuple[int, str, str, int, int, int, int, int]) -> Hold:
    """Rows of lock_id, kind, mode, acquired, try_failed, holds, hold_ns, max_hold_ns."""
    acquired, failed, ended, held, longest = (
        np.array([row[i] for row in rows], dtype=np.int64) for i in range(3, 8)
    )
    return Hold(
        bin_ns=np.full(len(rows), START_NS, dtype=np.int64),
        lock_id=np.array([row[0] for row in rows], dtype=np.uint64),
        acquired=acquired,
        try_failed=failed,
        holds=ended,
        hold_ns=held,
        max_hold_ns=longest,
        kind=words([row[1] for row in rows], KINDS),
        mode=words([row[2] for row in rows], MODES),
        in_workload=np.ones(len(rows), dtype=np.bool_),
        bin_length_ns=np.full(len(rows), BIN_NS),
    )


def waits(*rows: tuple[int, str, str, int, int, int, int, int]) -> LockWait:
    """Rows of lock_id, kind, mode, count, failed, spin_ns, sleep_ns, max_ns."""
    n = len(rows)
    zeros = np.zeros(n, dtype=np.int64)
    ids = np.zeros(n, dtype=np.uint64)
    nothing = words(["excl"] * n, MODES)
    count, failed, spin, sleep, longest = (
        np.array([row[i] for row in rows], dtype=np.int64) for i in range(3, 8)
    )
    return LockWait(
        bin_ns=zeros + START_NS,
        lock_id=np.array([row[0] for row in rows], dtype=np.uint64),
        stack_id=zeros - 1,
        spin_ns=spin,
        sleep_ns=sleep,
        count=count,
        max_ns=longest,
        failed=failed,
        kind=words([row[1] for row in rows], KINDS),
        mode=words([row[2] for row in rows], MODES),
        in_workload=np.ones(n, dtype=np.bool_),
        holder_state=nothing,
        holder_stack_id=zeros - 1,
        holder_comm=nothing,
        holder_lock=ids,
        chain=zeros,
        root_lock=ids,
        root_stack_id=zeros - 1,
        root_state=nothing,
        waiter=words(["workload"] * n, ("workload",)),
        waiter_name=words([""] * n, ("",)),
        bin_length_ns=np.full(n, BIN_NS),
    )


def only(rows: list[HoldRow], name: str) -> HoldRow:
    (row,) = (row for row in rows if row.name == name)
    return row


NAMES = {1: named("inode.i_rwsem"), 2: named("inode.i_rwsem"), 3: named("pipe.mutex"), 4: named("zone.lock")}


def test_hold_columns_of_one_class_equal_those_by_hand() -> None:
    rows = lockmeter_rows(
        holds(
            (1, "rwsem", "write", 60, 5, 59, 300_000_000, 20_000_000),
            (1, "rwsem", "write", 20, 15, 21, 200_000_000, 50_000_000),
            (2, "rwsem", "write", 20, 0, 20, 100_000_000, 9_000_000),
        ),
        waits(
            (1, "rwsem", "write", 22, 2, 0, 40_000_000, 4_000_000),
            (2, "rwsem", "write", 5, 0, 10_000_000, 0, 6_000_000),
        ),
        NAMES,
        SECOND_NS,
    )
    assert len(rows) == 1
    row = rows[0]
    assert (row.type, row.locks, row.why) == ("rwsem:W", 2, "")
    assert (row.acquired, row.try_failed, row.total) == (100, 20, 120)
    assert row.util_pct == pytest.approx(50)  # lock 1: 300 + 200 ms of a second; lock 2: 10 %
    assert row.mean_hold_ns == pytest.approx(6_000_000)  # 600 ms in 100 holds
    assert row.max_hold_ns == 50_000_000
    assert row.waits == 25  # two of 27 were given up
    assert row.con_pct == pytest.approx(25)
    assert row.mean_wait_ns == pytest.approx(2_000_000)
    assert row.max_wait_ns == 6_000_000
    assert row.nowait_pct == pytest.approx(100 * 75 / 120)
    assert row.spin_pct == pytest.approx(100 * 25 / 120)
    assert row.reject_pct == pytest.approx(100 * 20 / 120)
    parts = [row.nowait_pct, row.spin_pct, row.reject_pct]
    assert sum(part for part in parts if part is not None) == pytest.approx(100)


def test_hold_modes_are_apart_and_readers_add_up() -> None:
    rows = lockmeter_rows(
        holds(
            (1, "rwsem", "read", 10, 0, 10, 2 * SECOND_NS, SECOND_NS),
            (1, "rwsem", "write", 1, 0, 1, 5, 5),
        ),
        None,
        NAMES,
        SECOND_NS,
    )
    assert [(row.mode, row.util_pct) for row in rows] == [("read", 200), ("write", pytest.approx(5e-7))]
    assert [row.con_pct for row in rows] == [0, 0]
    assert rows[0].mean_wait_ns is None


def test_untraced_lock_kind_says_why() -> None:
    rows = lockmeter_rows(
        holds((3, "mutex", "excl", 4, 0, 4, 400, 100)),
        waits((4, "spinlock", "excl", 9, 0, 900, 0, 500), (9, "mutex", "excl", 1, 0, 1, 0, 1)),
        NAMES,
        SECOND_NS,
    )
    spin = only(rows, "zone.lock")
    assert "inlined" in spin.why
    assert (spin.waits, spin.mean_wait_ns) == (9, 100)
    for value in (spin.acquired, spin.total, spin.util_pct, spin.con_pct, spin.mean_hold_ns, spin.nowait_pct):
        assert value is None
    assert only(rows, NOT_NAMED).why == "no acquisition was seen"
    assert only(rows, "pipe.mutex").why == ""


def test_report_without_holds_says_how_to_record_them() -> None:
    (row,) = lockmeter_rows(None, waits((3, "mutex", "excl", 2, 0, 0, 10, 8)), NAMES, SECOND_NS)
    assert (row.why, row.waits, row.acquired, row.spin_pct, row.reject_pct) == (
        NOT_RECORDED,
        2,
        None,
        None,
        None,
    )
    assert lockmeter_rows(None, None, NAMES, SECOND_NS) == []


def test_contention_is_at_most_100_percent() -> None:
    (row,) = lockmeter_rows(
        holds((3, "mutex", "excl", 4, 0, 4, 40, 10)),
        waits((3, "mutex", "excl", 6, 0, 60, 0, 10)),
        NAMES,
        0,
    )
    assert (row.con_pct, row.spin_pct, row.nowait_pct, row.util_pct) == (100, 100, 0, None)


def test_hold_table_survives_parquet(tmp_path: Path) -> None:
    spec = Spec(
        hold=[
            {
                "bin_ns": START_NS,
                "lock_id": 2**64 - 64,
                "acquired": 2**40,
                "try_failed": 3,
                "holds": 4,
                "hold_ns": 2**50,
                "max_hold_ns": 2**49,
                "kind": "semaphore",
                "mode": "excl",
                "in_workload": 1,
            }
        ]
    )
    run = open_run(spec.write(tmp_path / "r"))
    hold = load_tables(run).hold
    assert hold is not None
    assert (hold.lock_id[0], hold.acquired[0], hold.hold_ns[0]) == (2**64 - 64, 2**40, 2**50)
    assert (hold.try_failed[0], hold.holds[0], hold.max_hold_ns[0]) == (3, 4, 2**49)
    assert hold.kind.present() == ["semaphore"]
    assert hold.in_workload[0]
    assert hold.bin_length_ns == BIN_NS


def test_run_without_holds_misses_nothing(tmp_path: Path) -> None:
    run = open_run(Spec().write(tmp_path / "r"))
    assert load_tables(run).hold is None
    assert not any("hold" in gap for gap in run.missing)
