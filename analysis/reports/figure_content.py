# SPDX-License-Identifier: BSD-2-Clause
"""Sections on what the workload itself measured, as it reported it."""

from __future__ import annotations

from analysis import units
from analysis.measures import iomatrix
from analysis.reports import matrix_content
from analysis.reports.document import Section, Table
from analysis.run import Run
from analysis.tables.figure import Value
from analysis.tables.load import Tables

ROWS_SHOWN = 40
COLUMNS_SHOWN = 12
DEFINITION = "measured by the workload itself, with its own clock; the units are in the names."


def words(value: Value) -> str:
    """A value as it is shown: whole numbers in full, others with three figures."""
    if isinstance(value, str):
        return value
    return units.count(value) if isinstance(value, int) else units.figures(value)


def name_words(name: str) -> str:
    """jobs_per_min: jobs per min."""
    return name.replace("_", " ")


def _table(name: str, rows: list[dict[str, Value]]) -> Table:
    columns = list(rows[0])[:COLUMNS_SHOWN]
    is_text = [isinstance(rows[0][column], str) for column in columns]
    heads = [
        ("<" if text else "") + name_words(column) for column, text in zip(columns, is_text, strict=True)
    ]
    if heads and not is_text[0]:
        heads[0] = "<" + heads[0]  # what the row is of: beside the others if the table is continued
    cells = [[words(row[column]) if column in row else "-" for column in columns] for row in rows]
    return Table(heads, cells[:ROWS_SHOWN])


def sections(run: Run, tables: Tables, matrix: iomatrix.Matrix | None) -> list[Section]:
    """What it reported, and the matrix of iomatrix; none if it reported nothing."""
    if tables.figures is None or not tables.figures.tables:
        return []
    section = Section("What the workload measured", definition=DEFINITION)
    for name, rows in tables.figures.tables.items():
        if name == iomatrix.CELLS:
            continue  # has a section of its own
        if name == "":
            section.facts += [(name_words(key), words(value)) for row in rows for key, value in row.items()]
            continue
        section.tables.append(_table(name, rows))
        if len(rows) > ROWS_SHOWN:
            section.notes.append(f"{name}: {len(rows) - ROWS_SHOWN:,} more rows are in tables/figure.parquet")
    found = [section] if section.facts or section.tables else []
    return found + (matrix_content.sections(run, matrix) if matrix else [])
