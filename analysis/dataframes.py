# SPDX-License-Identifier: BSD-2-Clause
"""A run's tables as pandas DataFrames, for notebooks.

    from analysis.dataframes import load
    block = load("runs/latest", "block")        # one row per request; times int64 ns, sizes bytes

Columns are those of the Parquet files (docs/TABLES.md); frame.attrs["units"] has their units.
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
    """Return one table by its name, see docs/TABLES.md.

    The recording is converted first if the Parquet file is missing. Raises ReportError, and OptionError for
    an unknown table, or one that the run has not.
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
