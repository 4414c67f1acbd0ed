# SPDX-License-Identifier: BSD-2-Clause
"""The figure table: results that the workload itself measured and wrote to raw/figures.jsonl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.rundir.run import as_float, as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored

ROWS_MOST = 100_000
COLUMNS_MOST = 32
Value = int | float | str


@dataclass(frozen=True)
class Figures:
    """The workload's rows by its table, in the order written; the table "" has values that stand alone."""

    tables: dict[str, list[dict[str, Value]]]


def _value(value: object) -> Value | None:
    if isinstance(value, str):
        return clean(value, 60)
    if isinstance(value, int):
        return as_int(value)
    return as_float(value)


def _rows(lines: Lines) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row_number, line in enumerate(lines):
        table = line.pop("table", None)
        values = {clean(name, 40): _value(value) for name, value in list(line.items())[:COLUMNS_MOST]}
        if not isinstance(table, str) or row_number >= ROWS_MOST or None in values.values() or not values:
            lines.bad += 1
            continue
        rows += [
            {
                "row": row_number,
                "of": clean(table, 40),
                "name": name,
                "text": str(value),
                "value": None if isinstance(value, str) else as_float(value),
            }
            for name, value in values.items()
        ]
    return rows


def _stored_value(text: str, number: float | None) -> Value:
    """The value as it was written: only the text has all digits of a large integer."""
    if number is None:
        return clean(text, 60)
    try:
        return int(clean(text, 60))
    except ValueError:
        return number


def _read(stored: Stored) -> Figures:
    """The rows as the workload wrote them."""
    tables: dict[str, dict[int, dict[str, Value]]] = {}
    for cell in stored.to_pylist():
        row = tables.setdefault(clean(cell["of"], 40), {}).setdefault(int(cell["row"]), {})
        row[clean(cell["name"], 40)] = _stored_value(cell["text"], cell["value"])
    return Figures({table: list(rows.values()) for table, rows in tables.items()})


TABLE = TableSpec(
    name="figure",
    one_row="one result that the workload measured: one column of one of its rows",
    file="raw/figures.jsonl",
    is_optional=True,
    limit_rows=ROWS_MOST * COLUMNS_MOST,
    columns=(
        Column("row", "int", "", "number of the workload's row, from 0"),
        Column("of", "string", "", "the workload's table; empty: a value that stands alone"),
        Column("name", "string", "", "name of the column, with its unit"),
        Column("text", "string", "", "value as it was written"),
        Column("value", "real", "as the name says", "value; null: not a number", zero_is_null=True),
    ),
    lines=_rows,
    read=_read,
)
