# SPDX-License-Identifier: BSD-2-Clause
"""The second table: one row a second of a whole watch with UNTIL=, what is normal beside the kept window."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Column

NO_PRESSURE, NO_REQUESTS, NO_LOCKS = 1, 2, 4  # enum second_flag of recorder/second.c


@dataclass(frozen=True)
class Second:
    """The second table as numpy columns, in the order of time."""

    t_ns: I64  # the end of the second
    length_ns: I64
    reads: I64
    writes: I64
    read_bytes: I64
    write_bytes: I64
    mean_q2c_ns: I64
    max_q2c_ns: I64
    depth_max: I64
    lock_wait_ns: I64
    psi_io_some_us: I64
    psi_io_full_us: I64
    lost: I64
    flags: I64


TABLE = TableSpec(
    name="second",
    one_row="one second of a whole watch with UNTIL=, from its start to the kept window's end",
    file="raw/recorder/second.rec",
    is_optional=True,
    columns=(
        Column("t_ns", "int", "ns", "end of the second"),
        Column("length_ns", "int", "ns", "length; the last one is shorter, a late one longer"),
        Column("reads", "int", "requests", "reads that completed"),
        Column("writes", "int", "requests", "writes that completed"),
        Column("read_bytes", "int", "bytes", "bytes of these reads"),
        Column("write_bytes", "int", "bytes", "bytes of these writes"),
        Column("mean_q2c_ns", "int", "ns", "mean time from queue to completion of these requests"),
        Column("max_q2c_ns", "int", "ns", "longest time from queue to completion of these requests"),
        Column("depth_max", "int", "requests", "highest number of requests in flight that was seen"),
        Column("lock_wait_ns", "int", "ns", "time waited for locks, of all waiters together"),
        Column("psi_io_some_us", "int", "us", "time in which some task waited for I/O (PSI, whole machine)"),
        Column("psi_io_full_us", "int", "us", "time in which all tasks waited for I/O (PSI, whole machine)"),
        Column("lost", "int", "events", "events that the recorder lost"),
        Column("flags", "int", "bits", "1: the kernel has no PSI, 2: block was off, 4: locks was off"),
    ),
    notes=(
        "All disks of the watch together. The rows are of the whole watch: unlike those of the other tables"
        " they also lie outside the recorded time. Only what the report says of the kept window uses them."
    ),
    read=columns_of(Second),
)
