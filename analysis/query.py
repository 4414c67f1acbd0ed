# SPDX-License-Identifier: BSD-2-Clause
"""The job query: answer one SQL question about the tables of one run or several."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from analysis import front
from analysis.errors import OptionError, ReportError
from analysis.sql import questions
from analysis.sql.database import Database, as_error, of_named_tables, open_database, statement_of
from analysis.sql.macros import MEANINGS
from analysis.sql.results import FORMATS
from analysis.sql.times import parse_window
from analysis.visible import visible

_PORTION = 10_000  # rows
_MOST_RUNS = 16


def list_questions() -> str:
    """The questions of analysis/queries and the macros, one line each."""
    names = questions.names()
    width = max(map(len, names))
    lines = [f"  {name:<{width}}  {questions.title(name)}\n" for name in names]
    macro_lines = [f"  {name:<{width}}  {meaning}\n" for name, meaning in MEANINGS.items()]
    return (
        f"{front.command('query')} RUN=... SQL=@NAME answers a question; "
        + "analysis/queries/NAME.sql has its columns:\n"
        + "".join(lines)
        + "For SQL='SELECT ...' of your own docs/TABLES.md has the tables; each has the column run. Also:\n"
        + f"  {'runs':<{width}}  a table: what ran on what and when, one row per run\n"
        + "".join(macro_lines)
    )


def run_query(paths: Sequence[Path], sql: str, window: str = "", form: str = "text") -> Iterator[str]:
    """Yield the answer as text, piece by piece. The SQL is wrong: OptionError.

    sql: one SELECT, or @NAME of a question. window: as in WINDOW=, empty for all of the recording. form: one
    of FORMATS. Notes on tables that the SQL names and a run lacks go to stderr. Raises ReportError.
    """
    if form not in FORMATS:
        raise OptionError(f"FORMAT={form} is no format: choose from {', '.join(FORMATS)}")
    if len(paths) > _MOST_RUNS:
        raise OptionError(f"RUNS names {len(paths)} runs: give at most {_MOST_RUNS}")
    seconds = parse_window(window) if window else None
    code = questions.read(sql[1:]) if sql.startswith("@") else sql
    yield from answer(open_database(paths, seconds), code, form)


def answer(database: Database, sql: str, form: str) -> Iterator[str]:
    """Yield the answer to one SELECT as run_query() does. Raises ReportError."""
    statement = statement_of(database, sql)
    if damaged := of_named_tables(database.damaged, sql):
        raise ReportError("; ".join(damaged))
    for sentence in of_named_tables(database.missing, sql):
        print(f"seekmeter: {sentence}", file=sys.stderr)
    try:
        cursor = _executed(database, statement)
    except KeyboardInterrupt:
        raise ReportError("the query was interrupted") from None
    except (duckdb.Error, pa.ArrowException, RuntimeError) as error:
        raise as_error(error) from None
    if statement.type == duckdb.StatementType.EXPLAIN and form == "text":  # a drawing of several lines
        yield from (visible(row[-1]) for rows in _rows(database, cursor) for row in rows)
        return
    yield from FORMATS[form]([column[0] for column in cursor.description], _rows(database, cursor))


def _executed(database: Database, statement: Any) -> Any:
    """The cursor of the statement. DuckDB sees ^C late or never: this thread waits for it."""
    with ThreadPoolExecutor(1) as thread:
        task = thread.submit(database.connection.execute, statement)
        try:
            return task.result()
        except KeyboardInterrupt:
            database.connection.interrupt()
            raise


def _rows(database: Database, cursor: Any) -> Iterator[list[tuple[Any, ...]]]:
    """The rows in portions. database: keeps the files open meanwhile."""
    while True:
        try:
            rows = cursor.fetchmany(_PORTION)
        except (duckdb.Error, pa.ArrowException, RuntimeError) as error:
            raise as_error(error) from None
        if not rows:
            return
        yield rows
