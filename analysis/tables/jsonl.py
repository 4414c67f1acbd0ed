# SPDX-License-Identifier: BSD-2-Clause
"""Read a .jsonl file (one JSON object a line) of a run directory, and convert it to a Parquet table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.errors import TableError
from analysis.rundir.files import open_regular, parse_json
from analysis.rundir.limits import LINE_BYTES_MOST, LINES_MOST
from analysis.tables.store import Column, schema, write_batches

LINES_LIMIT_BYTES = 256 * 1024 * 1024


class Lines:
    """Iterates over the objects of a file, one in memory at a time.

    `bad` counts the lines that are no JSON object, to which the reader of the rows adds the unusable ones.
    `bytes` is the file's size once the iteration has ended.
    """

    def __init__(self, path: Path) -> None:
        self.bad = 0
        self.bytes = 0
        self._path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the objects. Raises TableError if the file can't be read or is too large."""
        name, count = self._path.name, 0
        try:
            with open_regular(self._path) as file:
                while line := file.readline(LINE_BYTES_MOST + 1):
                    count += 1
                    self.bytes += len(line)
                    if len(line) > LINE_BYTES_MOST:
                        raise TableError(f"{name} has a line of more than {LINE_BYTES_MOST:,} bytes")
                    if count > LINES_MOST:
                        raise TableError(f"{name} has more than {LINES_MOST:,} lines")
                    if self.bytes > LINES_LIMIT_BYTES:
                        raise TableError(f"{name} is larger than {LINES_LIMIT_BYTES:,} bytes")
                    if line.strip() and (row := self._parsed(line)) is not None:
                        yield row
        except OSError as error:
            raise TableError(f"{name} can't be read: {error.strerror}") from None

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        try:
            value = parse_json(line, self._path.name)
        except TableError:
            value = None
        if isinstance(value, dict):
            return value
        self.bad += 1
        return None


Rows = Callable[[Lines], list[dict[str, Any]]]  # the table's rows; adds unusable lines to Lines.bad


def write_lines(source: Path, target: Path, table: str, columns: Sequence[Column], rows: Rows) -> None:
    """Convert a .jsonl file to a Parquet table. Raises TableError."""
    lines = Lines(source)
    table_rows = rows(lines)
    about = {"source": source.name, "source_bytes": lines.bytes, "bad_lines": lines.bad}
    arrow = schema(table, columns, about)
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(table_rows, schema=arrow)])
