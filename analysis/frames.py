# SPDX-License-Identifier: BSD-2-Clause
"""A run's tables as pandas DataFrames, for notebooks.

    from analysis import frames
    block = frames.load("runs/latest", "block")     # one row per request; times int64 ns, sizes bytes
    all_tables = frames.tables("runs/latest")       # every table that the run has, by name
    seconds = (block["queue_ns"] - frames.start_ns("runs/latest")) / 1e9

Columns are those of docs/TABLES.md; frame.attrs["units"] has their units. The table critical_path, which the
report makes, is described in docs/SCHEMA.md. analysis/example/notebook.py is an example.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis import front
from analysis.errors import OptionError, ReportError, TableError
from analysis.exporters.with_report.critical_path import NAME as PATH_FILE
from analysis.rundir.files import open_regular
from analysis.rundir.run import Run, open_run
from analysis.sql.times import time_of
from analysis.tables.load import TABLES, open_table
from analysis.tables.store import constant
from analysis.visible import clean

PATH = "critical_path"


def load(run: str | Path, table: str) -> pd.DataFrame:
    """Return one table by its name, see docs/TABLES.md.

    The recording is converted first if the Parquet file is missing or older. Whole numbers that may be null
    are of the type Int64. Raises ReportError, and OptionError for an unknown or a missing table.
    """
    if table != PATH and table not in TABLES:
        raise OptionError(f"{clean(table)} is no table; choose from {', '.join([*TABLES, PATH])}")
    opened = open_run(Path(run))
    frame = _frame(opened, table)
    if frame is None:
        reason = opened.missing[-1] if opened.missing else opened.absent(TABLES[table].collector or table)
        raise OptionError(f"{clean(run)} has no table {table}: {reason}")
    return frame


def tables(run: str | Path) -> dict[str, pd.DataFrame]:
    """Return every table that the run has, by name. All rows are then in memory. Raises ReportError."""
    opened = open_run(Path(run))
    loaded = {table: _frame(opened, table) for table in (*TABLES, PATH)}
    return {table: frame for table, frame in loaded.items() if frame is not None}


def start_ns(run: str | Path) -> int:
    """Return the start of the workload, from which reports count their seconds. Raises ReportError."""
    return time_of(open_run(Path(run))).work_start_ns


def _frame(run: Run, table: str) -> pd.DataFrame | None:
    """The table; None: the run has none, and run.missing may have the reason."""
    if table == PATH:
        try:
            return _pandas(pq.read_table(open_regular(run.open_path / PATH_FILE)), set())
        except (TableError, OSError, pa.ArrowException) as error:
            run.missing.append(f"{clean(error, 120)}; {front.command('report')} makes it")
            return None
    spec = TABLES[table]
    stored = open_table(run, spec)
    if stored is None:
        return None
    try:
        rows = stored.file.read([column.name for column in spec.columns if column.name not in stored.absent])
    except (OSError, pa.ArrowException, ValueError) as error:
        raise ReportError(
            f"{table}.parquet is damaged ({clean(error, 120)}): remove it, and load again"
        ) from None
    for column in spec.columns:
        if column.name in stored.absent:
            rows = rows.append_column(column.name, constant(column, stored.rows))
    frame = _pandas(rows, {column.name for column in spec.columns if column.zero_is_null})
    frame.attrs["units"] = {column.name: column.unit for column in spec.columns}
    return frame


def _pandas(rows: Any, nullable: Set[str]) -> pd.DataFrame:
    """An Arrow table as a frame; nullable whole numbers keep all their digits, which floats would not."""
    whole = {name for name in rows.column_names if rows.schema.field(name).type == pa.int64()}
    nulls = {name for name in whole if name in nullable or rows.column(name).null_count}
    frame: pd.DataFrame = rows.drop_columns(sorted(nulls)).to_pandas()
    for name in nulls:
        frame[name] = rows.column(name).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    ordered: pd.DataFrame = frame[rows.column_names]
    return ordered
