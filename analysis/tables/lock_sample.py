# SPDX-License-Identifier: BSD-2-Clause
"""The lock_sample table: one row is the CPU samples of one call path in one time bin, spinning or holding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64, Categorical, Column, Stored

COLUMNS = (
    Column("bin_ns", "int", "ns", "start of the time bin"),
    Column("length_ns", "int", "ns", "its length; 0: the usual one (older runs)", if_missing=0),
    Column("lock_id", "id", "", "holding: the lock, see the lock table; spinning: 0, not known"),
    Column("count", "int", "samples", "how often a CPU was found so"),
    Column("period_ns", "int", "ns", "the CPU time a sample stands for"),
    Column("stack_id", "int", "", "where, see the stack table; -1: none"),
    Column("doing", "category", "", "spin_seen (the tracepoints show the wait too), spin_unseen, holding"),
    Column("in_workload", "bool", "", "the task was in the workload's cgroup"),
    Column("waiter", "category", "", "who was found, as in lock_wait", if_missing="unknown"),
    Column("waiter_name", "text", "", "its name, as in lock_wait", if_missing=""),
)


@dataclass(frozen=True)
class LockSample:
    """The lock_sample table as numpy columns."""

    bin_ns: I64
    bin_length_ns: I64
    lock_id: npt.NDArray[np.uint64]
    count: I64
    period_ns: I64
    stack_id: I64
    doing: Categorical
    in_workload: npt.NDArray[np.bool_]
    waiter: Categorical
    waiter_name: Categorical


def from_stored(stored: Stored) -> LockSample:
    """All columns."""
    return LockSample(
        bin_ns=stored.ints("bin_ns"),
        bin_length_ns=stored.bin_lengths_ns(),
        lock_id=stored.ids("lock_id"),
        count=stored.ints("count"),
        period_ns=stored.ints("period_ns"),
        stack_id=stored.ints("stack_id"),
        doing=stored.categorical("doing"),
        in_workload=stored.bools("in_workload"),
        waiter=stored.categorical("waiter"),
        waiter_name=stored.categorical("waiter_name"),
    )
