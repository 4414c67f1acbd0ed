# SPDX-License-Identifier: BSD-2-Clause
"""A run's tables as pandas DataFrames, for notebooks and for seaborn.

    from analysis.dataframes import load
    block = load("runs/latest", "block")        # one row is one request; times int64 ns, sizes bytes

Columns are those of the Parquet files; frame.attrs["units"] says each one's unit.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from analysis.errors import OptionError
from analysis.rundir.run import open_run
from analysis.tables.load import TABLES, load_tables
from analysis.tables.store import METADATA_KEY


def load(run: str | Path, table: str) -> pd.DataFrame:
    """Return one table (phase, block, lock_wait, lock, stack, call, counter).

    It is converted from the recording first if that is not done yet. Raises ReportError, and OptionError for
    a table that there is none of.
    """
    if table not in TABLES:
        raise OptionError(f"{table} is no table; choose from {', '.join(TABLES)}")
    path = Path(run)
    file = path / "tables" / f"{table}.parquet"
    if not file.exists():
        load_tables(open_run(path))
    if not file.exists():
        raise OptionError(f"{path} has no table {table}; its report says why")
    stored = pq.read_table(file)
    frame: pd.DataFrame = stored.to_pandas()
    metadata = stored.schema.metadata or {}
    frame.attrs["units"] = json.loads(metadata.get(METADATA_KEY, b"{}")).get("units", {})
    return frame
