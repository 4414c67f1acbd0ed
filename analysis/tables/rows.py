# SPDX-License-Identifier: BSD-2-Clause
"""Select rows of a table that is a dataclass of numpy columns."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from analysis.tables.store import Categorical

Table = TypeVar("Table")
Rows = slice | npt.NDArray[np.signedinteger[Any]] | npt.NDArray[np.bool_]


def take(table: Table, rows: Rows) -> Table:
    """A copy with these rows of each numpy and Categorical column; other fields stay as they are."""
    columns: dict[str, Any] = {}
    for column in fields(table):  # type: ignore[arg-type]
        value = getattr(table, column.name)
        if isinstance(value, np.ndarray):
            columns[column.name] = value[rows]
        elif isinstance(value, Categorical):
            columns[column.name] = Categorical(value.codes[rows], value.labels)
    return replace(table, **columns)  # type: ignore[type-var]


def chosen(mask: npt.NDArray[np.bool_]) -> Rows:
    """The rows of a mask; as a slice if they are adjacent, so that a table of millions is not copied."""
    at = np.flatnonzero(mask)
    if at.size and int(at[-1]) - int(at[0]) + 1 == at.size:
        return slice(int(at[0]), int(at[-1]) + 1)
    return at
