# SPDX-License-Identifier: BSD-2-Clause
"""The cpu_sample table: one row is one look of perf's at one CPU; the cpu_stack table: its call paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analysis.tables import stack
from analysis.tables.store import I64, Categorical, Column, Stored

COLUMNS = (
    Column("t_ns", "int", "ns", "when"),
    Column("pid", "int", "", "process; 0: the idle task"),
    Column("tid", "int", "", "thread"),
    Column("stack_id", "int", "", "call path, see the cpu_stack table; -1: none; -2: one too many, not kept"),
    Column("cpu", "int", "", "CPU"),
    Column("mode", "category", "", "user, kernel, idle (the idle task, but for interrupts in it)"),
    Column("in_workload", "bool", "", "the workload's first process or one that it started"),
    Column("comm", "text", "", "name of the thread"),
    Column("period_ns", "int", "ns", "the time of one CPU that a sample stands for"),
)
STACK_COLUMNS = (
    Column("stack_id", "int", "", "number"),
    Column("frames", "frames", "", "functions, innermost first; the kernel's end in _[k]"),
)


@dataclass(frozen=True)
class CpuSample:
    """The cpu_sample table as numpy columns."""

    t_ns: I64
    stack_id: I64
    mode: Categorical
    in_workload: npt.NDArray[np.bool_]
    comm: Categorical
    period_ns: I64


def from_stored(stored: Stored) -> CpuSample:
    """The columns the measures use."""
    return CpuSample(
        t_ns=stored.ints("t_ns"),
        stack_id=stored.ints("stack_id"),
        mode=stored.categorical("mode"),
        in_workload=stored.bools("in_workload"),
        comm=stored.categorical("comm"),
        period_ns=stored.ints("period_ns"),
    )


def convert_stacks(source: Path, target: Path) -> None:
    """Write the cpu_stack table from cpu_stack.jsonl."""
    stack.convert(source, target, "cpu_stack", STACK_COLUMNS)
