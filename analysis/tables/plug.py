# SPDX-License-Identifier: BSD-2-Clause
"""The plug table: batches of requests that threads held back (plugged) and then handed over together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import moment
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column


@dataclass(frozen=True)
class Plug:
    """The plug table as numpy columns."""

    plug_ns: I64  # 0: not known
    unplug_ns: I64
    dev: I64
    depth: I64
    by_schedule: npt.NDArray[np.bool_]
    comm: Categorical


TABLE = TableSpec(
    name="plug",
    one_row="one unplug: the requests that a thread held back and handed over together",
    collector="block",
    file="raw/recorder/plug.rec",
    time=moment("unplug_ns", is_cut=False, gives_window=False),
    is_optional=True,
    limit_rows=1 << 30,  # as of the block table
    columns=(
        Column(
            "plug_ns",
            "int",
            "ns",
            "when the first request was held back; null: not known",
            zero_is_null=True,
        ),
        Column("unplug_ns", "int", "ns", "when the requests were handed over"),
        Column("dev", "int", "major<<20|minor", "device"),
        Column("pid", "int", "", "thread"),
        Column("comm", "text", "", "name of the thread"),
        Column("depth", "int", "requests", "requests handed over"),
        Column("cpu", "int", "", "CPU number"),
        Column(
            "by_schedule",
            "bool",
            "",
            "the unplug came from the thread going to sleep (before Linux 2.6.39: from a timer)",
        ),
    ),
    notes="Only imported block traces have this table.",
    read=columns_of(Plug),
)
