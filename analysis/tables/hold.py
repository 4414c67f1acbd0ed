# SPDX-License-Identifier: BSD-2-Clause
"""The hold table: acquisitions and hold times of sleeping locks, by lock, mode and time bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import bins
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column


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
    bin_length_ns: I64  # shorter for a bin that a phase's border cuts


TABLE = TableSpec(
    name="hold",
    one_row="the acquisitions and holds of one lock in one mode in one time bin",
    collector="holds",
    file="raw/recorder/hold.rec",
    time=bins(gives_window=False),
    columns=(
        Column("bin_ns", "int", "ns", "start of the time bin"),
        Column("length_ns", "int", "ns", "length of the time bin; 0: the recording's usual", if_missing=0),
        Column("lock_id", "id", "", "lock, see the table lock"),
        Column("acquired", "int", "acquisitions", "acquisitions in this bin, contended or not"),
        Column("try_failed", "int", "trylocks", "failed trylocks"),
        Column("holds", "int", "holds", "holds that ended in this bin"),
        Column("hold_ns", "int", "ns", "hold time, summed; each of several concurrent readers counts"),
        Column("max_hold_ns", "int", "ns", "the longest hold"),
        Column("kind", "category", "", "mutex, rwsem or semaphore"),
        Column("mode", "category", "", "read, write or excl"),
        Column("in_workload", "bool", "", "acquired by a task of the workload's cgroup"),
    ),
    read=columns_of(Hold),
)
