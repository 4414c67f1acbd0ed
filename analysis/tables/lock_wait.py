# SPDX-License-Identifier: BSD-2-Clause
"""The lock_wait table: one row is the waits on one lock from one call path in one time bin.

Where a lock was waited on too often to look at every wait, the others' stack_id is -2: their times are exact,
their call path and holder are not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64, Categorical, Column, Stored

COLUMNS = (
    Column("bin_ns", "int", "ns", "start of the time bin"),
    Column("length_ns", "int", "ns", "its length; 0: the usual one (older runs)", if_missing=0),
    Column("lock_id", "id", "", "the lock, see the lock table"),
    Column("stack_id", "int", "", "who waited, see the stack table; -1: none; -2: not sampled"),
    Column("mode", "category", "", "read, write or excl"),
    Column("spin_ns", "int", "ns", "time spent spinning"),
    Column("sleep_ns", "int", "ns", "time spent sleeping"),
    Column("count", "int", "waits", "waits that ended in this bin"),
    Column("max_ns", "int", "ns", "the longest"),
    Column("holder_stack_id", "int", "", "who held it when the wait began; -1: not known; -2: not sampled"),
    Column("failed", "int", "waits", "waits given up (signal)"),
    Column("kind", "category", "", "spinlock, rwlock, mutex, rwsem, ..."),
    Column("in_workload", "bool", "", "the waiter was in the workload's cgroup"),
    Column(
        "holder_state",
        "category",
        "",
        "what the holder was doing when the wait began: running, runnable, io, lock, sleeping, readers,"
        " nobody, unknown, not_sampled",
        if_missing="unknown",
    ),
    Column("holder_comm", "text", "", "the holder's name", if_missing=""),
    Column("holder_lock", "id", "", "the lock the holder waited for; 0: none", if_missing=0),
    Column("chain", "int", "locks", "locks in the chain of holders; 0: no holder known", if_missing=0),
    Column(
        "root_lock", "id", "", "the lock that the task at the chain's end holds; 0: lock_id", if_missing=0
    ),
    Column("root_stack_id", "int", "", "that task's stack", if_missing=-1),
    Column("root_state", "category", "", "what that task was doing", if_missing="unknown"),
    Column(
        "waiter",
        "category",
        "",
        "who waited: workload, kernel_thread, interrupt, recorder (our own), other; of older runs unknown",
        if_missing="unknown",
    ),
    Column(
        "waiter_name",
        "text",
        "",
        "a kernel thread by what it works on (flush-7:9), or another process's name",
        if_missing="",
    ),
)
NO_STACK = -1
NOT_SAMPLED = -2


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
    kind: Categorical
    mode: Categorical
    in_workload: npt.NDArray[np.bool_]
    holder_state: Categorical
    holder_stack_id: I64
    holder_comm: Categorical
    holder_lock: npt.NDArray[np.uint64]
    chain: I64
    root_lock: npt.NDArray[np.uint64]
    root_stack_id: I64
    root_state: Categorical
    waiter: Categorical
    waiter_name: Categorical
    bin_length_ns: I64  # of a bin that a phase's border cuts, shorter than of the others


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
        kind=stored.categorical("kind"),
        mode=stored.categorical("mode"),
        in_workload=stored.bools("in_workload"),
        holder_state=stored.categorical("holder_state"),
        holder_stack_id=stored.ints("holder_stack_id"),
        holder_comm=stored.categorical("holder_comm"),
        holder_lock=stored.ids("holder_lock"),
        chain=stored.ints("chain"),
        root_lock=stored.ids("root_lock"),
        root_stack_id=stored.ints("root_stack_id"),
        root_state=stored.categorical("root_state"),
        waiter=stored.categorical("waiter"),
        waiter_name=stored.categorical("waiter_name"),
        bin_length_ns=stored.bin_lengths_ns(),
    )
