# SPDX-License-Identifier: BSD-2-Clause
"""The cpu_sample table: one row per perf sample of a CPU. Its call paths are in the table cpu_stack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import moment
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column


@dataclass(frozen=True)
class CpuSample:
    """The cpu_sample table as numpy columns."""

    t_ns: I64
    stack_id: I64
    mode: Categorical
    in_workload: npt.NDArray[np.bool_]
    comm: Categorical
    period_ns: I64


TABLE = TableSpec(
    name="cpu_sample",
    one_row="one perf sample of one CPU",
    collector="perf",
    file="raw/perf/cpu_sample.rec",
    time=moment("t_ns", gives_window=False),
    limit_rows=1 << 27,
    columns=(
        Column("t_ns", "int", "ns", "time of the sample"),
        Column("pid", "int", "", "process; 0: the idle task"),
        Column("tid", "int", "", "thread"),
        Column(
            "stack_id", "int", "", "call path, see cpu_stack; -1: none; -2: not kept, too many call paths"
        ),
        Column("cpu", "int", "", "CPU number"),
        Column("mode", "category", "", "user, kernel, idle (the idle task, but for interrupts in it)"),
        Column("in_workload", "bool", "", "the workload's first process, or a descendant of it"),
        Column("comm", "text", "", "name of the thread"),
        Column("period_ns", "int", "ns", "CPU time that the sample stands for"),
    ),
    read=columns_of(CpuSample),
)
