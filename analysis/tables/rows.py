# SPDX-License-Identifier: BSD-2-Clause
"""Some rows of a table that is a dataclass of columns."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from analysis.tables.store import Categorical

Table = TypeVar("Table")
Rows = slice | npt.NDArray[np.signedinteger[Any]] | npt.NDArray[np.bool_]


def take(table: Table, rows: Rows) -> Table:
    """The same table with these rows of each column; what is no column stays."""
    columns: dict[str, Any] = {}
    for column in fields(table):  # type: ignore[arg-type]
        value = getattr(table, column.name)
        if isinstance(value, np.ndarray):
            columns[column.name] = value[rows]
        elif isinstance(value, Categorical):
            columns[column.name] = Categorical(value.codes[rows], value.labels)
    return replace(table, **columns)  # type: ignore[type-var]
