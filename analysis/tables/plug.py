# SPDX-License-Identifier: BSD-2-Clause
"""The plug table: one row is one unplug, requests that a thread held back (plugged) and handed over together.

Only block traces have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64, Categorical, Column, Stored

COLUMNS = (
    Column(
        "plug_ns", "int", "ns", "when the first request was held back; null: not known", zero_is_null=True
    ),
    Column("unplug_ns", "int", "ns", "when they were handed over"),
    Column("dev", "int", "major<<20|minor", "the device"),
    Column("pid", "int", "", "the thread"),
    Column("comm", "text", "", "its name"),
    Column("depth", "int", "requests", "how many were handed over"),
    Column("cpu", "int", "", "where"),
    Column("by_schedule", "bool", "", "the thread went to sleep (before Linux 2.6.39: a timer ran out)"),
)


@dataclass(frozen=True)
class Plug:
    """The plug table as numpy columns."""

    plug_ns: I64  # 0: not known
    unplug_ns: I64
    dev: I64
    depth: I64
    by_schedule: npt.NDArray[np.bool_]
    comm: Categorical


def from_stored(stored: Stored) -> Plug:
    """What the measures use."""
    return Plug(
        plug_ns=stored.ints("plug_ns"),
        unplug_ns=stored.ints("unplug_ns"),
        dev=stored.ints("dev"),
        depth=stored.ints("depth"),
        by_schedule=stored.bools("by_schedule"),
        comm=stored.categorical("comm"),
    )
