# SPDX-License-Identifier: BSD-2-Clause
"""The function table: names of kernel functions that other tables have by number."""

from __future__ import annotations

from typing import Any

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored

NAME_LETTERS = 100


def _rows(lines: Lines) -> list[dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        number, name = as_int(line.get("id")), line.get("name")
        if number is None or number <= 0 or not isinstance(name, str):
            lines.bad += 1
            continue
        rows[number] = {"id": number, "name": clean(name, NAME_LETTERS)}
    return list(rows.values())


def _read(stored: Stored) -> dict[int, str]:
    """Names by number."""
    return {int(row["id"]): clean(row["name"], NAME_LETTERS) for row in stored.to_pylist()}


TABLE = TableSpec(
    name="function",
    one_row="one kernel function that a work item or the end of an I/O runs",
    file="raw/recorder/function.jsonl",
    is_optional=True,
    columns=(
        Column("id", "int", "", "number of the function, from 1 on; other tables have 0 for none"),
        Column("name", "string", "", "name of the function"),
    ),
    lines=_rows,
    read=_read,
)
