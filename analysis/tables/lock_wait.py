# SPDX-License-Identifier: BSD-2-Clause
"""The lock_wait table: waits on kernel locks in time bins (tracepoints contention_begin and _end)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import bins
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column

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
    bin_length_ns: I64  # shorter for a bin that a phase's border cuts


TABLE = TableSpec(
    name="lock_wait",
    one_row="the waits on one lock from one call path in one time bin",
    collector="locks",
    file="raw/recorder/lock_wait.rec",
    time=bins(),
    columns=(
        Column("bin_ns", "int", "ns", "start of the time bin"),
        Column("length_ns", "int", "ns", "length of the time bin; 0: the recording's usual", if_missing=0),
        Column("lock_id", "id", "", "lock, see the table lock"),
        Column(
            "stack_id", "int", "", "call path of the waiter, see the table stack; -1: none; -2: not sampled"
        ),
        Column("mode", "category", "", "read, write or excl"),
        Column("spin_ns", "int", "ns", "time spent spinning"),
        Column("sleep_ns", "int", "ns", "time spent sleeping"),
        Column("count", "int", "waits", "waits that ended in this bin"),
        Column("max_ns", "int", "ns", "the longest wait"),
        Column(
            "holder_stack_id",
            "int",
            "",
            "call path of the holder when the wait began; -1: not known; -2: not sampled",
        ),
        Column("failed", "int", "waits", "waits given up because of a signal"),
        Column("kind", "category", "", "spinlock, rwlock, mutex, rwsem, ..."),
        Column("in_workload", "bool", "", "the waiter was in the workload's cgroup"),
        Column(
            "holder_state",
            "category",
            "",
            "state of the holder when the wait began: running, runnable, io, lock, sleeping, readers,"
            " nobody, unknown, not_sampled",
            if_missing="unknown",
        ),
        Column("holder_comm", "text", "", "name of the holder", if_missing=""),
        Column("holder_lock", "id", "", "lock that the holder waited for; 0: none", if_missing=0),
        Column("chain", "int", "locks", "locks in the chain of holders; 0: no holder known", if_missing=0),
        Column(
            "root_lock",
            "id",
            "",
            "lock held by the task at the end of the chain; 0: the same as lock_id",
            if_missing=0,
        ),
        Column("root_stack_id", "int", "", "call path of the task at the end of the chain", if_missing=-1),
        Column(
            "root_state", "category", "", "state of the task at the end of the chain", if_missing="unknown"
        ),
        Column(
            "waiter",
            "category",
            "",
            "class of the waiter: workload, kernel_thread, interrupt, recorder (Seekmeter's), other; unknown"
            " in older runs",
            if_missing="unknown",
        ),
        Column(
            "waiter_name",
            "text",
            "",
            "kernel thread with what it serves (flush-7:9), or name of a process outside the workload",
            if_missing="",
        ),
    ),
    notes=(
        "On a lock with many waits a second only some are sampled. The others are rows of stack_id -2: their"
        " times are exact, their call path and holder are not known."
    ),
    read=columns_of(LockWait),
)
