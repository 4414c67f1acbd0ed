# SPDX-License-Identifier: BSD-2-Clause
"""Every table as CSV, exactly: TABLE.csv, and columns.csv with unit and meaning of each column.

Numbers have all their digits. A null is an empty field; an empty text is "". Texts are quoted and stand as
they were recorded. Lists (call paths, histograms) are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from analysis.errors import TableError
from analysis.exporters.format import Exported, Format, Source
from analysis.exporters.readme import write_readme
from analysis.rundir.files import rewritten
from analysis.rundir.run import clean
from analysis.tables.load import TABLES
from analysis.tables.store import ARROW_TYPES, Stored, constant

COLUMNS, README = "columns.csv", "README.txt"
LISTS = ("hist", "frames")
PART_ROWS = 1 << 16
RULES = """\
A header line has the columns' names; columns.csv has their units and meanings. Times are CLOCK_MONOTONIC
nanoseconds, sizes bytes, sectors 512 bytes. Numbers have all their digits: a spreadsheet that keeps 15 of
them rounds the times. A null is an empty field, an empty text is "". Lists are JSON. Texts stand as they
were recorded: let a spreadsheet import columns of names as text, or a name that begins with = is run as a
formula."""


def _types() -> dict[str, Any]:
    """Arrow type of each kind of column in the CSV file."""
    texts = ("category", "text", "string", *LISTS)
    return {kind: pa.string() if kind in texts else arrow for kind, arrow in ARROW_TYPES.items()}


def _column(batch: Any, stored: Stored, name: str) -> Any:
    column = stored.columns[name]
    values = constant(column, batch.num_rows) if name in stored.absent else batch.column(name)
    if column.kind in LISTS:
        return pa.array([json.dumps(value) for value in values.to_pylist()], pa.string())
    return values.cast(pa.string()) if column.kind in ("category", "text") else values


def _batches(stored: Stored, schema: Any) -> Iterator[Any]:
    """The rows as record batches. Raises TableError if the file is damaged."""
    names = [name for name in stored.columns if name not in stored.absent]
    done = 0
    try:
        for batch in stored.file.iter_batches(PART_ROWS, columns=names):
            done += batch.num_rows
            columns = [_column(batch, stored, name) for name in stored.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{stored.name}.parquet is damaged: {clean(error, 120)}") from None
    if done != stored.rows:
        raise TableError(f"{stored.name}.parquet is damaged: {done} of {stored.rows} rows")


def _write_table(stored: Stored, path: Path) -> None:
    types = _types()
    schema = pa.schema([(name, types[column.kind]) for name, column in stored.columns.items()])
    with rewritten(path) as file, csv.CSVWriter(file, schema) as writer:
        for batch in _batches(stored, schema):
            writer.write_batch(batch)


def _write_columns(path: Path) -> None:
    rows = [
        (name, column.name, column.kind, column.unit, column.meaning)
        for name, spec in TABLES.items()
        for column in spec.columns
    ]
    names = ["table", "column", "type", "unit", "meaning"]
    columns = [list(values) for values in zip(*rows, strict=True)]
    with rewritten(path) as file:
        csv.write_csv(pa.table(columns, names=names), file)


def write(source: Source, folder: Path) -> Exported:
    """Write a file for each table that the run has."""
    files, notes = [], []
    lines = []
    for name, stored in source.tables().items():
        try:
            _write_table(stored, folder / f"{name}.csv")
        except TableError as error:
            notes.append(f"{name} is left out: {error}")
            continue
        files.append(f"{name}.csv")
        lines.append(f"{name}.csv: {stored.rows:,} rows; a row is {TABLES[name].one_row}")
    absent = [name for name in TABLES if f"{name}.csv" not in files]
    if absent:
        lines.append(f"tables that the run does not have: {', '.join(absent)}")
    _write_columns(folder / COLUMNS)
    write_readme(source, folder / README, "every table as CSV", RULES, [*lines, *notes])
    return Exported([*files, COLUMNS, README], notes)


FORMAT = Format("csv", 20, "every table as CSV, with units: for spreadsheets, R, any language", write)
