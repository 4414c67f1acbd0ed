# SPDX-License-Identifier: BSD-2-Clause
"""TableSpec: everything the analysis knows of one table, stated once by the table's module.

A module of this folder that has a `TABLE` is a table: load.py finds it by walking the folder, converts its
recording, reads it, and clips it; docs/TABLES.md lists its columns. Adding a table is adding one module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from analysis.rundir.limits import LINES_MOST, ROWS_MOST
from analysis.rundir.run import Run
from analysis.tables import rows
from analysis.tables.derived import Derive
from analysis.tables.jsonl import Rows
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk, RowTime
from analysis.tables.store import Column, Stored

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TableSpec(Generic[T]):
    """One table. T: what measures get of it, a dataclass of numpy columns or a dict."""

    name: str
    one_row: str  # "one row is ..."
    file: str  # the recording, relative to the run directory: a .rec file, or a .jsonl file (see `lines`)
    columns: tuple[Column, ...]
    read: Callable[[Stored], T]
    collector: str = ""  # its name in losses.json; empty: the session or the workload writes the file
    time: RowTime | None = None  # None: the rows have no time, and are never clipped
    is_optional: bool = (
        False  # older runs and some kinds of run have no such table: that is not worth a warning
    )
    lines: Rows | None = None  # of a .jsonl file: make the rows
    # of a .rec file: returns a function that corrects records by what run.json states
    correct: Callable[[Recording, Run], Callable[[Chunk], Chunk]] | None = None
    derive: Derive | None = None  # of a .rec file: compute columns that no recorder writes
    # of a .rec file: returns the recording with the table's columns, where other files of the run give some
    extend: Callable[[Recording, Run], Recording] | None = None
    made_by: str = ""  # digest of our own data that makes columns: tables made by other data are made anew
    take: Callable[[T, rows.Rows], T] = rows.take
    limit_rows: int | None = None  # a larger table is refused; None: LINES_MOST or ROWS_MOST
    notes: str = ""  # for docs/TABLES.md

    @property
    def rows_most(self) -> int:
        """A table with more rows than this is refused."""
        return self.limit_rows or (LINES_MOST if self.lines else ROWS_MOST)


def columns_of(table_class: type[T]) -> Callable[[Stored], T]:
    """Return a reader that makes the dataclass `made`: each field is the column of its name.

    The field bin_length_ns is the length of each row's time bin (Stored.bin_lengths_ns).
    """

    def read(stored: Stored) -> T:
        columns: dict[str, Any] = {field.name: stored.column(field.name) for field in fields(table_class)}  # type: ignore[arg-type]
        return table_class(**columns)

    return read
