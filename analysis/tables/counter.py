# SPDX-License-Identifier: BSD-2-Clause
"""The counter table: one row is one sample of one system counter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.store import I64, Categorical, Column, Stored

COLUMNS = (
    Column("t_ns", "int", "ns", "when it was read"),
    Column(
        "name",
        "category",
        "",
        "the counter, its unit in its name; cumulative unless it is a level (mem.*, in_flight)",
    ),
    Column("value", "int", "see name", "its value"),
)


@dataclass(frozen=True)
class Counter:
    """The counter table as numpy columns."""

    t_ns: I64
    name: Categorical
    value: I64

    def series(self, name: str) -> tuple[I64, I64]:
        """Times and values of one counter, in the order of time; empty if it was not sampled."""
        rows = np.flatnonzero(self.name.is_(name))
        order = rows[np.argsort(self.t_ns[rows], kind="stable")]
        return self.t_ns[order], self.value[order]


def from_stored(stored: Stored) -> Counter:
    """All columns."""
    return Counter(t_ns=stored.ints("t_ns"), name=stored.categorical("name"), value=stored.ints("value"))
