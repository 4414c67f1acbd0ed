# SPDX-License-Identifier: BSD-2-Clause
"""The switch table: context switches, one row each, of the threads that the recorder logs."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.tables.row_time import moment
from analysis.tables.spec import TableSpec
from analysis.tables.store import I64, Categorical, Column, Ints, Stored

PREEMPTED, ENDED = "preempted", "ended"  # states of prev; all others are sleeps


@dataclass(frozen=True)
class Switch:
    """The switch table as numpy columns."""

    t_ns: I64
    prev: Ints
    next: Ints
    stack_id: Ints
    cpu: Ints
    state: Categorical
    prev_role: Categorical
    next_role: Categorical


def _read(stored: Stored) -> Switch:
    """The columns, numbers in 32 bits: a run may have tens of millions of rows."""
    return Switch(
        t_ns=stored.ints("t_ns"),
        prev=stored.small_ints("prev"),
        next=stored.small_ints("next"),
        stack_id=stored.small_ints("stack_id"),
        cpu=stored.small_ints("cpu"),
        state=stored.categorical("state"),
        prev_role=stored.categorical("prev_role"),
        next_role=stored.categorical("next_role"),
    )


TABLE = TableSpec(
    name="switch",
    one_row="one context switch of a CPU from or to a logged thread",
    file="raw/recorder/switch.rec",
    time=moment("t_ns", gives_window=False),
    collector="sched",
    is_optional=True,
    limit_rows=1 << 25,
    columns=(
        Column("t_ns", "int", "ns", "time of the switch"),
        Column(
            "prev", "int", "", "thread that left the CPU, see the table thread; 0: one that is not logged"
        ),
        Column("next", "int", "", "thread that came to the CPU; 0: one that is not logged"),
        Column(
            "stack_id",
            "int",
            "",
            "kernel call path of prev as it went to sleep, see the table stack; -1: none",
        ),
        Column("cpu", "int", "", "CPU number"),
        Column(
            "state",
            "category",
            "",
            "prev afterwards: preempted (still runnable), sleeping (S), blocked (D), io_wait (in_iowait),"
            " ended, other (stopped, traced)",
        ),
        Column("prev_role", "category", "", "whose thread prev is: workload, kernel, recorder, other, idle"),
        Column("next_role", "category", "", "whose thread next is"),
    ),
    read=_read,
)
