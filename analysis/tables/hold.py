# SPDX-License-Identifier: BSD-2-Clause
"""The hold table: one row is the acquisitions and holds of one lock in one mode in one time bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64, Categorical, Column, Stored

COLUMNS = (
    Column("bin_ns", "int", "ns", "start of the time bin"),
    Column("length_ns", "int", "ns", "its length; 0: the usual one (older runs)", if_missing=0),
    Column("lock_id", "id", "", "the lock, see the lock table"),
    Column("acquired", "int", "acquisitions", "times it was taken in this bin, contended or not"),
    Column("try_failed", "int", "trylocks", "trylocks that did not get it"),
    Column("holds", "int", "holds", "holds that ended in this bin"),
    Column("hold_ns", "int", "ns", "their time; readers who hold it together count each"),
    Column("max_hold_ns", "int", "ns", "the longest"),
    Column("kind", "category", "", "mutex, rwsem or semaphore"),
    Column("mode", "category", "", "read, write or excl"),
    Column("in_workload", "bool", "", "taken by a task of the workload's cgroup"),
)


@dataclass(frozen=True)
class Hold:
    """The hold table as numpy columns."""

    bin_ns: I64
    lock_id: npt.NDArray[np.uint64]
    acquired: I64
    try_failed: I64
    holds: I64
    hold_ns: I64
    max_hold_ns: I64
    kind: Categorical
    mode: Categorical
    in_workload: npt.NDArray[np.bool_]
    bin_length_ns: I64  # of a bin that a phase's border cuts, shorter than of the others


def from_stored(stored: Stored) -> Hold:
    """All columns."""
    return Hold(
        bin_ns=stored.ints("bin_ns"),
        lock_id=stored.ids("lock_id"),
        acquired=stored.ints("acquired"),
        try_failed=stored.ints("try_failed"),
        holds=stored.ints("holds"),
        hold_ns=stored.ints("hold_ns"),
        max_hold_ns=stored.ints("max_hold_ns"),
        kind=stored.categorical("kind"),
        mode=stored.categorical("mode"),
        in_workload=stored.bools("in_workload"),
        bin_length_ns=stored.bin_lengths_ns(),
    )
