# SPDX-License-Identifier: BSD-2-Clause
"""Sections on what the workload itself measured, as it reported it."""

from __future__ import annotations

from analysis import units
from analysis.measures.app import iomatrix
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections import iomatrix as matrix_content
from analysis.tables.load import Tables
from analysis.tables.result import Value

ROWS_SHOWN = 40
COLUMNS_SHOWN = 12
TABLES_SHOWN = 8
DEFINITION = "measured by the workload itself, with its own clock; the units are in the names."


def words(value: Value) -> str:
    """A value as it is shown: whole numbers in full, others with three figures."""
    if isinstance(value, str):
        return value
    return units.count(value) if isinstance(value, int) else units.figures(value)


def name_words(name: str) -> str:
    """jobs_per_min: jobs per min."""
    return name.replace("_", " ")


def _table(rows: list[dict[str, Value]]) -> Table:
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
    found = [section]
    for name, rows in tables.figures.tables.items():
        if name == iomatrix.CELLS:
            continue  # has a section of its own
        if name == "":
            section.facts += [(name_words(key), words(value)) for row in rows for key, value in row.items()]
            continue
        one = Section(f"Measured by the workload: {name}", tables=[_table(rows)], definition=DEFINITION)
        if len(rows) > ROWS_SHOWN:
            one.notes.append(f"{len(rows) - ROWS_SHOWN:,} more rows are in tables/figure.parquet")
        found.append(one)
        if len(found) > TABLES_SHOWN:
            break
    return [
        *(s for s in found if s.facts or s.tables),
        *(matrix_content.sections(run, matrix) if matrix else []),
    ]
