# SPDX-License-Identifier: BSD-2-Clause
"""The counter table: samples of system counters from /proc, /sys/block and pressure stall information."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.row_time import moment
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column


@dataclass(frozen=True)
class Counter:
    """The counter table as numpy columns."""

    t_ns: I64
    name: Categorical
    value: I64
    dev: I64  # 0: the machine's; older recordings: the counters disk.* are of the first disk

    def series(self, name: str, dev: int = 0) -> tuple[I64, I64]:
        """Times and values of one counter in the order of time, empty if it was not sampled.

        dev: of this device's; 0: the machine's.
        """
        rows = np.flatnonzero(self.name.is_(name) & (self.dev == dev))
        order = rows[np.argsort(self.t_ns[rows], kind="stable")]
        return self.t_ns[order], self.value[order]


TABLE = TableSpec(
    name="counter",
    one_row="one sample of one system counter",
    collector="counters",
    file="raw/recorder/counter.rec",
    time=moment("t_ns"),
    limit_rows=1 << 27,
    columns=(
        Column("t_ns", "int", "ns", "time of the sample"),
        Column(
            "name",
            "category",
            "",
            "counter, unit at the end of its name; a running total, except levels (mem.*, disk.in_flight)",
        ),
        Column("value", "int", "see name", "value of the counter"),
        Column(
            "dev",
            "int",
            "major<<20|minor",
            "device of a disk.* counter; null: the machine's, or the first disk's in older recordings",
            zero_is_null=True,
            if_missing=0,
        ),
    ),
    notes=(
        "No report reads the psi.* counters (pressure stall information: time in which some or all tasks"
        " waited for CPU, I/O or memory). They are recorded for SQL and notebooks: a run cannot be asked for"
        " them later."
    ),
    read=columns_of(Counter),
)
