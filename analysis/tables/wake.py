# SPDX-License-Identifier: BSD-2-Clause
"""The wake table: wake-ups of logged threads, one row each, with what woke them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import moment
from analysis.tables.spec import TableSpec
from analysis.tables.store import I64, Categorical, Column, Ints, Stored


@dataclass(frozen=True)
class Wake:
    """The wake table as numpy columns."""

    t_ns: I64
    wakee: Ints
    waker: Ints
    waker_role: Categorical
    context: Categorical
    cause: Categorical
    dev: Ints
    sector: I64
    work_id: Ints
    sure: npt.NDArray[np.bool_]
    is_new: npt.NDArray[np.bool_]


def _read(stored: Stored) -> Wake:
    """The columns, numbers in 32 bits: a run may have tens of millions of rows."""
    return Wake(
        t_ns=stored.ints("t_ns"),
        wakee=stored.small_ints("wakee"),
        waker=stored.small_ints("waker"),
        waker_role=stored.categorical("waker_role"),
        context=stored.categorical("context"),
        cause=stored.categorical("cause"),
        dev=stored.small_ints("dev"),
        sector=stored.ints("sector"),
        work_id=stored.small_ints("work_id"),
        sure=stored.bools("sure"),
        is_new=stored.bools("is_new"),
    )


TABLE = TableSpec(
    name="wake",
    one_row="one wake-up of a logged thread",
    file="raw/recorder/wake.rec",
    time=moment("t_ns", gives_window=False),
    collector="sched",
    is_optional=True,
    limit_rows=1 << 25,
    columns=(
        Column("t_ns", "int", "ns", "time of the wake-up, in the waker"),
        Column("wakee", "int", "", "thread that is woken, see the table thread"),
        Column(
            "waker",
            "int",
            "",
            "thread on the waking CPU, which an interrupt may only have interrupted; 0: one that is not"
            " logged",
        ),
        Column("wakee_role", "category", "", "whose thread the wakee is: workload, kernel, recorder, other"),
        Column("waker_role", "category", "", "whose thread the waker is"),
        Column("cpu", "int", "", "CPU of the waker"),
        Column(
            "context", "category", "", "context of the waker: task, softirq, hardirq, nmi; unknown: not told"
        ),
        Column(
            "cause",
            "category",
            "",
            "what made the CPU do it: request (completed one, or a volume's bio), work (a work item), timer,"
            " net; none: the waker in its own right, or not known of an interrupt",
        ),
        Column("dev", "int", "major<<20|minor", "device of that request; 0: none"),
        Column("sector", "int", "512 B sectors", "its first sector when it was issued; 0 of a flush"),
        Column("work_id", "int", "", "function of the work item, see the table function; 0: none"),
        Column(
            "sure", "bool", "", "the cause is of the same interrupt as the wake-up; else it may be another"
        ),
        Column("is_new", "bool", "", "the first wake-up of a new thread, by the one that made it"),
    ),
    read=_read,
)
