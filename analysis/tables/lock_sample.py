# SPDX-License-Identifier: BSD-2-Clause
"""The lock_sample table: CPU samples that hit a spinning task, or a task that holds a contended lock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import bins
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column


@dataclass(frozen=True)
class LockSample:
    """The lock_sample table as numpy columns."""

    bin_ns: I64
    bin_length_ns: I64  # shorter for a bin that a phase's border cuts
    lock_id: npt.NDArray[np.uint64]
    count: I64
    period_ns: I64
    stack_id: I64
    doing: Categorical
    in_workload: npt.NDArray[np.bool_]
    waiter: Categorical
    waiter_name: Categorical


TABLE = TableSpec(
    name="lock_sample",
    one_row="the CPU samples of one call path in one time bin, spinning or holding",
    collector="locks",
    file="raw/recorder/lock_sample.rec",
    time=bins(gives_window=False),
    is_optional=True,
    columns=(
        Column("bin_ns", "int", "ns", "start of the time bin"),
        Column("length_ns", "int", "ns", "length of the time bin; 0: the recording's usual", if_missing=0),
        Column("lock_id", "id", "", "holding: lock, see the table lock; spinning: 0, not known"),
        Column("count", "int", "samples", "samples"),
        Column("period_ns", "int", "ns", "CPU time that one sample stands for"),
        Column("stack_id", "int", "", "call path, see the table stack; -1: none"),
        Column(
            "doing",
            "category",
            "",
            "spin_seen (lock_wait has the wait, too), spin_unseen (no tracepoint shows the wait), holding",
        ),
        Column("in_workload", "bool", "", "the sampled task was in the workload's cgroup"),
        Column("waiter", "category", "", "class of the sampled task, as in lock_wait", if_missing="unknown"),
        Column("waiter_name", "text", "", "name of the sampled task, as in lock_wait", if_missing=""),
    ),
    read=columns_of(LockSample),
)
