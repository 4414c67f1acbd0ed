# SPDX-License-Identifier: BSD-2-Clause
"""The figure table: what the workload itself measured. One row is one value: a column of one of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.rundir.run import as_float, as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.store import Column, Stored, schema, write_batches

COLUMNS = (
    Column("row", "int", "", "number of the workload's row, from 0"),
    Column("of", "string", "", "the workload's table; empty: a figure that stands alone"),
    Column("name", "string", "", "the column, its unit in the name"),
    Column("text", "string", "", "the value as it was written"),
    Column("value", "real", "as the name says", "the value; null if it is no number", zero_is_null=True),
)
ROWS_MOST = 100_000
COLUMNS_MOST = 32
Value = int | float | str


@dataclass(frozen=True)
class Figures:
    """Rows by table, in the order they were written; the table "" has the figures that stand alone."""

    tables: dict[str, list[dict[str, Value]]]


def _value(value: object) -> Value | None:
    if isinstance(value, str):
        return clean(value, 60)
    if isinstance(value, int):
        return as_int(value)
    return as_float(value)


def convert(source: Path, target: Path) -> None:
    """Write the table from figures.jsonl."""
    lines = Lines(source)
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        of = line.pop("table", None)
        values = {clean(name, 40): _value(value) for name, value in list(line.items())[:COLUMNS_MOST]}
        if not isinstance(of, str) or number >= ROWS_MOST or None in values.values() or not values:
            lines.bad += 1
            continue
        for name, value in values.items():
            number_of = None if isinstance(value, str) else as_float(value)
            rows.append(
                {"row": number, "of": clean(of, 40), "name": name, "text": str(value), "value": number_of}
            )
    arrow = schema(
        "figure", COLUMNS, {"source": source.name, "source_bytes": lines.bytes, "bad_lines": lines.bad}
    )
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(rows, schema=arrow)])


def _read(text: str, number: float | None) -> Value:
    """A whole number is kept to the last digit in its text alone."""
    if number is None:
        return clean(text, 60)
    try:
        return int(clean(text, 60))
    except ValueError:
        return number


def from_stored(stored: Stored) -> Figures:
    """The rows as they were written."""
    tables: dict[str, dict[int, dict[str, Value]]] = {}
    for one in stored.to_pylist():
        row = tables.setdefault(clean(one["of"], 40), {}).setdefault(int(one["row"]), {})
        row[clean(one["name"], 40)] = _read(one["text"], one["value"])
    return Figures({of: list(rows.values()) for of, rows in tables.items()})
