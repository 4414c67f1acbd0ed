# SPDX-License-Identifier: BSD-2-Clause
"""The lock_wait table: one row is the waits on one lock from one call path in one time bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64, Column, Stored, Words

COLUMNS = (
    Column("bin_ns", "int", "ns", "start of the time bin"),
    Column("lock_id", "id", "", "the lock's address"),
    Column("stack_id", "int", "", "who waited, see the stack table; -1: none"),
    Column("mode", "word", "", "read, write or excl"),
    Column("spin_ns", "int", "ns", "time spent spinning"),
    Column("sleep_ns", "int", "ns", "time spent sleeping"),
    Column("count", "int", "waits", "waits that ended in this bin"),
    Column("max_ns", "int", "ns", "the longest"),
    Column("holder_stack_id", "int", "", "who held it; -1: not known"),
    Column("failed", "int", "waits", "waits given up (signal)"),
    Column("kind", "word", "", "spinlock, rwlock, mutex, rwsem, ..."),
    Column("in_workload", "bool", "", "the waiter was in the workload's cgroup"),
)


@dataclass(frozen=True)
class LockWait:
    """The lock_wait table as numpy columns."""

    bin_ns: I64
    lock_id: npt.NDArray[np.uint64]
    stack_id: I64
    spin_ns: I64
    sleep_ns: I64
    count: I64
    max_ns: I64
    failed: I64
    kind: Words
    mode: Words
    in_workload: npt.NDArray[np.bool_]
    bin_length_ns: int


def from_stored(stored: Stored) -> LockWait:
    """The columns the measures use."""
    return LockWait(
        bin_ns=stored.ints("bin_ns"),
        lock_id=stored.ids("lock_id"),
        stack_id=stored.ints("stack_id"),
        spin_ns=stored.ints("spin_ns"),
        sleep_ns=stored.ints("sleep_ns"),
        count=stored.ints("count"),
        max_ns=stored.ints("max_ns"),
        failed=stored.ints("failed"),
        kind=stored.words("kind"),
        mode=stored.words("mode"),
        in_workload=stored.bools("in_workload"),
        bin_length_ns=stored.bin_ns or 100_000_000,
    )
