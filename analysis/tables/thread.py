# SPDX-License-Identifier: BSD-2-Clause
"""The thread table: the threads that ran during the recording, and the kernel's own counts of their time.

The kernel's counts are differences from the moment the thread was first seen to the last; the sums of the
table thread_time are compared with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import I64, Column, Stored

ALL_OTHERS = 0  # number of the row for all threads that are not told apart
NAME_LETTERS = 60
MISSING = -1  # a count that the kernel did not keep

COUNTS = (
    Column("run_ns", "int", "ns", "time on a CPU (sum_exec_runtime)", zero_is_null=True),
    Column("run_delay_ns", "int", "ns", "time ready to run (sched_info.run_delay)", zero_is_null=True),
    Column(
        "blkio_delay_ns",
        "int",
        "ns",
        "time asleep in I/O (delays.blkio_delay); null: kernel.task_delayacct was off",
        zero_is_null=True,
    ),
    Column(
        "is_blkio_sure",
        "bool",
        "",
        "blkio_delay_ns can be a truth; false: on kernels with delayed dequeue (sched_entity.sched_delayed),"
        " of threads of the fair class: the begin of such a sleep may be noted in another thread",
        if_missing=True,
    ),
    Column("switches", "int", "switches", "times it left a CPU", zero_is_null=True),
    Column("rchar", "int", "bytes", "bytes that its calls read (task_io_accounting)", zero_is_null=True),
    Column("wchar", "int", "bytes", "bytes that its calls wrote", zero_is_null=True),
    Column("read_bytes", "int", "bytes", "bytes it had read from a device", zero_is_null=True),
    Column("write_bytes", "int", "bytes", "bytes it made dirty, or wrote directly", zero_is_null=True),
    Column(
        "cancelled_write_bytes", "int", "bytes", "bytes made dirty that were truncated", zero_is_null=True
    ),
)
COLUMNS = (
    Column("thread", "int", "", "number of the thread in this run, from 1; 0: all others together"),
    Column("tid", "int", "", "thread id"),
    Column("tgid", "int", "", "process id"),
    Column("comm", "string", "", "its last name; of a kernel thread the full one"),
    Column("process", "string", "", "name of the process"),
    Column("parent_tgid", "int", "", "process id of the parent"),
    Column("role", "string", "", "workload, kernel (a kernel thread), recorder (Seekmeter's), other"),
    Column("is_kernel_thread", "bool", "", "it is a kernel thread"),
    Column("start_ns", "int", "ns", "when it was first seen"),
    Column("end_ns", "int", "ns", "when it ended; null: alive at the end", zero_is_null=True),
    *COUNTS,
    Column(
        "cgroup",
        "int",
        "inode",
        "cgroup (v2) that it was last seen in, see the table cgroup; null: not known, it did not run",
        zero_is_null=True,
        if_missing=0,
    ),
)
STRINGS = tuple(column.name for column in COLUMNS if column.kind == "string")


@dataclass(frozen=True)
class Threads:
    """The thread table, a row a thread."""

    thread: I64
    tid: I64
    tgid: I64
    parent_tgid: I64
    comm: list[str]
    process: list[str]
    role: list[str]
    is_kernel_thread: npt.NDArray[np.bool_]
    start_ns: I64
    end_ns: I64  # 0: alive at the end
    run_ns: I64  # MISSING: not known; so of the next two
    run_delay_ns: I64
    blkio_delay_ns: I64
    is_blkio_sure: npt.NDArray[np.bool_]  # false: begins of those sleeps may be noted elsewhere
    write_bytes: I64  # made dirty, or written directly; MISSING: not known; so of the next
    cancelled_write_bytes: I64
    cgroup: I64  # 0: not known


def rows_by_number(lines: Lines) -> list[dict[str, Any]]:
    """Rows of the table; the last line of a thread counts."""
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        number = as_int(line.get("thread"))
        if number is None or number < 0:
            lines.bad += 1
            continue
        row: dict[str, Any] = {"thread": number}
        for column in COLUMNS[1:]:
            value = line.get(column.name, column.if_missing)
            if column.kind == "string":
                row[column.name] = clean(value or "", NAME_LETTERS)
            elif column.kind == "bool":
                row[column.name] = value is True or value == 1
            else:
                known = as_int(value)
                row[column.name] = known if column.zero_is_null or known is not None else 0
        rows[number] = row
    return list(rows.values())


def _read(stored: Stored) -> Threads:
    rows = stored.to_pylist()

    def ints(name: str, default: int = 0) -> I64:
        return np.array([default if row[name] is None else row[name] for row in rows], dtype=np.int64)

    def texts(name: str) -> list[str]:
        return [clean(row[name], NAME_LETTERS) for row in rows]

    return Threads(
        thread=ints("thread"),
        tid=ints("tid"),
        tgid=ints("tgid"),
        parent_tgid=ints("parent_tgid"),
        comm=texts("comm"),
        process=texts("process"),
        role=texts("role"),
        is_kernel_thread=np.array([bool(row["is_kernel_thread"]) for row in rows], dtype=np.bool_),
        start_ns=ints("start_ns"),
        end_ns=ints("end_ns"),
        run_ns=ints("run_ns", MISSING),
        run_delay_ns=ints("run_delay_ns", MISSING),
        blkio_delay_ns=ints("blkio_delay_ns", MISSING),
        is_blkio_sure=np.array([bool(row["is_blkio_sure"]) for row in rows], dtype=np.bool_),
        write_bytes=ints("write_bytes", MISSING),
        cancelled_write_bytes=ints("cancelled_write_bytes", MISSING),
        cgroup=ints("cgroup"),
    )


TABLE = TableSpec(
    name="thread",
    one_row="one thread that was seen, or all others together",
    collector="threads",
    file="raw/recorder/thread.jsonl",
    is_optional=True,
    columns=COLUMNS,
    lines=rows_by_number,
    read=_read,
    notes=(
        "The counts are the kernel's own, from when the thread was first seen until it ended or the recording"
        " did; null where the kernel keeps none."
    ),
)
