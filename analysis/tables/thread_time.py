# SPDX-License-Identifier: BSD-2-Clause
"""The thread_time table: what each thread did with its time, in time bins, and what it waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.causes.rules import rules
from analysis.tables.row_time import bins
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column
from analysis.tables.thread_rows import extend


@dataclass(frozen=True)
class ThreadTime:
    """The thread_time table as numpy columns."""

    bin_ns: I64
    bin_length_ns: I64
    ns: I64
    count: I64
    max_ns: I64
    thread: I64
    tid: I64
    comm: Categorical
    role: Categorical
    state: Categorical
    by: Categorical
    cause: Categorical
    place: Categorical
    stack_id: I64
    call: Categorical
    call_target: Categorical
    lock_kind: Categorical
    lock_id: npt.NDArray[np.uint64]
    work_name: Categorical
    in_transaction: npt.NDArray[np.bool_]
    samples: I64


TABLE = TableSpec(
    name="thread_time",
    one_row="the time of one thread in one state, with one cause, in one time bin",
    collector="threads",
    file="raw/recorder/thread_time.rec",
    time=bins(gives_window=False),
    is_optional=True,
    extend=extend,
    made_by=rules().digest,
    columns=(
        Column("bin_ns", "int", "ns", "start of the time bin"),
        Column("length_ns", "int", "ns", "length of the time bin; of several, if one state fills these"),
        Column("ns", "int", "ns", "time in this state"),
        Column("count", "int", "intervals", "intervals that ended in this bin"),
        Column("max_ns", "int", "ns", "the longest interval that ended in this bin, from its begin"),
        Column("thread", "int", "", "thread, see the table thread; 0: all others"),
        Column("tid", "int", "", "thread id"),
        Column("comm", "text", "", "name of the thread"),
        Column(
            "role",
            "category",
            "",
            "workload, filesystem (kernel threads of the file system under test), disk (what serves its disk:"
            " loop workers, the file system below them), recorder (Seekmeter's), other",
        ),
        Column(
            "state",
            "category",
            "",
            "user, kernel, irq (a softirq on its back), spin: on a CPU, split by samples; running: on a CPU,"
            " without samples;"
            " runnable; sleeping (interruptible); blocked (uninterruptible); io_wait (asleep in I/O, as the"
            " kernel marks it); other (stopped, traced)",
        ),
        Column("by", "category", "", "of runnable: role of what ran on the CPU meanwhile"),
        Column("cause", "category", "", "what it waited for, by the rules of analysis/causes"),
        Column("place", "text", "", "function that told the cause; of an unknown stack the innermost"),
        Column("stack_id", "int", "", "call path with which it went to sleep, see stack; -1: none"),
        Column("call", "category", "", "file-system call that it was in"),
        Column("call_target", "category", "", "file system of that call: target, elsewhere, unknown"),
        Column("lock_kind", "category", "", "kind of the lock that it waited for, as the task says"),
        Column("lock_id", "id", "", "that lock, see the table lock; 0: none, or not known"),
        Column("work_id", "int", "", "function of a kworker's work item, see function; 0: none"),
        Column("work_name", "text", "", "what a kworker's work is for: flush-7:8, loop8"),
        Column("in_transaction", "bool", "", "the thread had a journal handle open (journal_info)"),
        Column("samples", "int", "samples", "CPU samples in this state"),
    ),
    notes=(
        "Per thread and bin the times of all states add up to the thread's lifetime in it. The role is that"
        " of the work a kernel thread did at the time, so one kworker may have rows of several roles."
    ),
    read=columns_of(ThreadTime),
)
