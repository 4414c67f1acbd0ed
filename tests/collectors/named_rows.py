# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a recorded table with names in place of the numbers of its enumerations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.collectors.recording import Recording, read_table


class NamedRows:
    """A recorded table, its enumerations as names."""

    def __init__(self, path: Path) -> None:
        self.header, self.rows = read_table(path)
        self.names = {
            name: {int(key): text for key, text in numbers.items()}
            for name, numbers in self.header["enums"].items()
        }

    def named(self, rows: Any, column: str) -> Any:
        """Return op, class or submitter of these rows as words."""
        names = self.names[f"block_{column}"]
        return np.array([names.get(int(value), "?") for value in rows[column]], dtype=object)

    def of(self, dev: int, *, op: str | None = None) -> Any:
        """Return the rows of a device (major << 20 | minor), of one operation if asked."""
        rows = self.rows[self.rows["dev"] == dev]
        return rows if op is None else rows[self.named(rows, "op") == op]


def named_rows(run: Recording, table: str) -> list[dict[str, Any]]:
    """Return the rows of TABLE.rec as dicts, enumerations by name."""
    header, records = read_table(run.out / f"{table}.rec")
    enums = {field["name"]: header["enums"][field["enum"]] for field in header["fields"] if field.get("enum")}
    names = [name for name in records.dtype.names or () if not name.startswith("pad")]
    found = [{name: record[name].item() for name in names} for record in records]
    for row in found:
        row |= {name: texts[str(row[name])] for name, texts in enums.items()}
    return found
