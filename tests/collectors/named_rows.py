# SPDX-License-Identifier: BSD-2-Clause
"""Rows of block.rec or volume.rec with the names of their operations, classes and submitters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.collectors.recording import read_table


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
