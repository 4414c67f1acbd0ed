# SPDX-License-Identifier: BSD-2-Clause
"""The tables of runs as views of a DuckDB in memory, which reads nothing else and writes nothing.

A view has the rows of all runs, and the column run with the run's name. Rows stay in the Parquet files:
DuckDB gets these as Arrow data sets, and may then open no file. (If it read Parquet itself, it would need the
right to open files, and COPY ... TO could overwrite them.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from analysis import front
from analysis.errors import OptionError, ReportError, TableError
from analysis.exporters.with_report.critical_path import NAME as PATH_FILE
from analysis.measures.common.window import Window
from analysis.rundir.files import open_regular
from analysis.rundir.run import Run, open_run
from analysis.sql import macros, quote
from analysis.sql.times import Seconds, check_window, time_of
from analysis.tables.load import TABLES, open_table
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column
from analysis.visible import clean

PATH = "critical_path"
RUNS = "runs"
_MEMORY_SHARE = 1 / 2
_TYPES = {
    "int": "BIGINT",
    "id": "UBIGINT",
    "real": "DOUBLE",
    "bool": "BOOLEAN",
    "category": "VARCHAR",
    "text": "VARCHAR",
    "string": "VARCHAR",
    "hist": "UINTEGER[256]",
    "frames": "VARCHAR[]",
}
# From here on nothing but the views can be read, and no setting can be changed.
_LOCK = (
    "SET temp_directory = ''",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


@dataclass
class Database:
    """Runs opened for queries.

    missing: by table, a sentence for each run that has recorded none of it. damaged: for each whose rows
    can't be read; and for the critical path, if no run has one.
    """

    connection: Any  # DuckDBPyConnection
    missing: dict[str, list[str]] = field(default_factory=dict)
    damaged: dict[str, list[str]] = field(default_factory=dict)
    files: list[IO[bytes]] = field(default_factory=list)  # open as long as the connection is


def of_named_tables(sentences: Mapping[str, list[str]], sql: str) -> list[str]:
    """The sentences on tables that this SQL names."""
    named = [of_table for table, of_table in sentences.items() if _names(sql, table)]
    return [sentence for of_table in named for sentence in of_table]


def _names(sql: str, table: str) -> bool:
    """Whether the SQL has this name where a table stands; comments do not count."""
    code = re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    place = r"(?:\b(?:from|join|describe|summarize)|,)"
    return re.search(rf'{place}\s*"?{table}\b', code, re.IGNORECASE) is not None


def open_database(paths: Sequence[Path], window: Seconds | None = None) -> Database:
    """Open runs for queries; recordings are converted first. Raises ReportError."""
    runs = _named([open_run(path) for path in paths])
    times = {name: time_of(run) for name, run in runs.items()}
    if window is not None:
        check_window(window, list(times.values()))
    database = Database(duckdb.connect(":memory:"))
    connection = database.connection
    connection.execute(f"SET memory_limit = '{_memory_bytes()}B'")
    connection.execute(f"SET threads = {len(os.sched_getaffinity(0))}")
    for name, spec in TABLES.items():
        parts = [part for label, run in runs.items() if (part := _table(database, label, run, spec))]
        connection.execute(f"CREATE VIEW {quote.name(name)} AS {_union(parts) or _empty(spec)}")
    parts = [part for label, run in runs.items() if (part := _path(database, label, run))]
    if parts:
        connection.execute(f"CREATE VIEW {PATH} AS {_union(parts)}")
    else:  # no TableSpec has its columns, so it can't be an empty table
        database.damaged[PATH] = database.missing.pop(PATH)
    connection.execute(f"CREATE VIEW {RUNS} AS {_runs(runs, times)}")
    for statement in (*macros.statements(times, window), *_LOCK):
        connection.execute(statement)
    return database


def _memory_bytes() -> int:
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE)


def _named(opened: Sequence[Run]) -> dict[str, Run]:
    """The runs by the name in the column run: the directory's, or the path where two directories have one."""
    for names in ([run.name for run in opened], [clean(run.path) for run in opened]):
        if len(set(names)) == len(names):
            return dict(zip(names, opened, strict=True))
    raise OptionError("RUNS names a run twice: name each run once")


def _table(database: Database, label: str, run: Run, spec: TableSpec[Any]) -> str:
    """SELECT the rows of one run's table; empty if the run has no such table."""
    known = len(run.missing)
    stored = open_table(run, spec)
    if stored is None:
        if len(run.missing) > known:
            database.damaged.setdefault(spec.name, []).append(f"{label}: {run.missing[-1]}")
        else:
            sentence = f"{label} has no table {spec.name}: {run.absent(spec.collector or spec.name)}"
            database.missing.setdefault(spec.name, []).append(sentence)
        return ""
    source = f"{spec.name} of {label}"
    _register(database, source, run.open_path / "tables" / f"{spec.name}.parquet")
    columns = [
        f"{_constant(column)} AS {quote.name(column.name)}"
        if column.name in stored.absent
        else quote.name(column.name)
        for column in spec.columns
    ]
    return f"SELECT {quote.literal(label)} AS run, {', '.join(columns)} FROM {quote.name(source)}"


def _constant(column: Column) -> str:
    """The value of a column that the table is too old to have."""
    if column.zero_is_null and column.if_missing == 0:
        return f"CAST(NULL AS {_TYPES[column.kind]})"
    return f"CAST({quote.literal(str(column.if_missing))} AS {_TYPES[column.kind]})"


def _empty(spec: TableSpec[Any]) -> str:
    """SELECT no rows with the table's columns."""
    columns = [f"CAST(NULL AS {_TYPES[column.kind]}) AS {quote.name(column.name)}" for column in spec.columns]
    return f"SELECT CAST(NULL AS VARCHAR) AS run, {', '.join(columns)} WHERE false"


def _path(database: Database, label: str, run: Run) -> str:
    """SELECT the pieces of one run's critical path; empty if its report has left none."""
    source = f"{PATH} of {label}"
    try:
        names = _register(database, source, run.open_path / PATH_FILE)
    except TableError as error:
        database.missing.setdefault(PATH, []).append(
            f"{label} has no table {PATH} ({error}): "
            f"{front.command(f'report RUN={label}')} makes it, if sched was recorded"
        )
        return ""
    columns = ", ".join(quote.name(name) for name in names if name.lower() != "run")
    return f"SELECT {quote.literal(label)} AS run, {columns} FROM {quote.name(source)}"


def _register(database: Database, source: str, path: Path) -> list[str]:
    """Give DuckDB a Parquet file by a name. Returns its columns. Raises TableError."""
    file = open_regular(path)
    database.files.append(file)
    try:
        # By its descriptor: another file that gets the path later is not read.
        data = ds.dataset(f"/proc/self/fd/{file.fileno()}", format="parquet")
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{path.name} is not a readable Parquet file: {clean(error, 120)}") from None
    database.connection.register(source, data)
    names: list[str] = data.schema.names
    return names


def _union(parts: Sequence[str]) -> str:
    return " UNION ALL BY NAME ".join(parts)


def _runs(runs: Mapping[str, Run], times: Mapping[str, Window]) -> str:
    """SELECT one row per run: what ran on what, and when."""
    rows = []
    for label, run in runs.items():
        time = times[label]
        texts = [
            label,
            run.text("filesystem", "name"),
            run.text("workload", "name"),
            run.text("kernel", "release"),
            run.state,
        ]
        numbers = [time.work_start_ns, time.work_end_ns, time.start_ns, time.end_ns]
        rows.append(f"({', '.join([*map(quote.literal, texts), *map(str, numbers)])})")
    columns = "run, fs, workload, kernel, state, work_start_ns, work_end_ns, record_start_ns, record_end_ns"
    return f"SELECT * FROM (VALUES {', '.join(rows)}) AS facts({columns})"


def statement_of(database: Database, sql: str) -> Any:
    """The one statement of the SQL, if it only reads. Raises OptionError."""
    try:
        statements = database.connection.extract_statements(sql)
    except duckdb.Error as error:
        raise as_error(error) from None
    if len(statements) != 1:
        raise OptionError(f"SQL has {len(statements)} statements: give one SELECT")
    kind = statements[0].type.name
    if kind not in ("SELECT", "EXPLAIN"):
        raise OptionError(
            f"SQL is a statement of the kind {kind}, and the tables are only read:"
            " give a SELECT (also WITH, FROM, DESCRIBE, SUMMARIZE, SHOW TABLES), or EXPLAIN"
        )
    return statements[0]


def as_error(error: Exception) -> ReportError:
    """DuckDB's error in one line: the machine's or a file's fault, else the SQL's."""
    message, _, place = str(error).partition("\n\nLINE ")
    words = clean(" ".join(message.split()), 600)
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        words = clean(message.partition("\n")[0], 200)
        return ReportError(f"the query needs too much memory ({words}): ask for fewer columns or rows")
    if isinstance(error, duckdb.InterruptException):
        return ReportError("the query was interrupted")
    if isinstance(error, duckdb.IOException | duckdb.InternalException | duckdb.FatalException):
        return ReportError(f"the query failed: {words}")
    if "reading the stream registered as" in words:  # of a Parquet file
        return ReportError(f"a table is damaged: {words}")
    where = f" (line {place.split(':')[0]})" if place else ""
    return OptionError(f"SQL is wrong{where}: {words}")
