# SPDX-License-Identifier: BSD-2-Clause
"""Workload results: what the workload itself measured and reported (raw/figures.jsonl)."""

from __future__ import annotations

from analysis import units
from analysis.measures.app import iomatrix
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.iomatrix import add_matrix
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables.load import Tables
from analysis.tables.result import Value

ROWS_SHOWN = 40
COLUMNS_SHOWN = 12
TABLES_SHOWN = 8
DEFINITION = "values measured by the workload itself, with its own clock; units are in the names."


def value_text(value: Value) -> str:
    """A value as it is shown: whole numbers in full, others with three figures."""
    if isinstance(value, str):
        return value
    return units.count(value) if isinstance(value, int) else units.figures(value)


def name_text(name: str) -> str:
    """jobs_per_min: jobs per min."""
    return name.replace("_", " ")


def _table(rows: list[dict[str, Value]]) -> Table:
    columns = list(rows[0])[:COLUMNS_SHOWN]
    is_text = [isinstance(rows[0][column], str) for column in columns]
    heads = [("<" if text else "") + name_text(column) for column, text in zip(columns, is_text, strict=True)]
    if heads and not is_text[0]:
        heads[0] = "<" + heads[0]  # what the row is of: beside the others if the table is continued
    cells = [[value_text(row[column]) if column in row else "-" for column in columns] for row in rows]
    return Table(heads, cells[:ROWS_SHOWN])


def build_workload_results(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Single numbers and iomatrix's matrix in one section, each table of results in one of its own."""
    if tables.figures is None or not tables.figures.tables:
        return []
    main = Section(definition=DEFINITION)
    sections = [main]
    for name, rows in tables.figures.tables.items():
        if name == iomatrix.CELLS:
            continue  # shown as a matrix
        if name == "":
            main.facts += [(name_text(key), value_text(value)) for row in rows for key, value in row.items()]
            continue
        section = Section(f"Workload results: {name}", tables=[_table(rows)], definition=DEFINITION)
        if len(rows) > ROWS_SHOWN:
            section.notes.append(f"{len(rows) - ROWS_SHOWN:,} more rows are in tables/figure.parquet")
        sections.append(section)
        if len(sections) > TABLES_SHOWN:
            break
    if results.app.matrix is not None:
        add_matrix(main, run, results.app.matrix)
    return [section for section in sections if section.facts or section.tables]


SECTIONS = (
    SectionSpec("workload_results", "Workload results", 600, build_workload_results, explains=(TIME,)),
)
