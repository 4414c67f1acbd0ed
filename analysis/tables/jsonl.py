# SPDX-License-Identifier: BSD-2-Clause
"""Read a .jsonl file (one JSON object a line) of the run; lines that are no such thing are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.errors import TableError
from analysis.rundir.files import open_regular, parse_json
from analysis.rundir.limits import LINE_BYTES_MOST, LINES_MOST

LINES_LIMIT_BYTES = 256 * 1024 * 1024


class Lines:
    """The objects, one at a time, so that nobody has to keep what is not wanted.

    `bad` (lines that were no JSON object) and `bytes` (the file's size) are known when all were read.
    """

    def __init__(self, path: Path) -> None:
        self.bad = 0
        self.bytes = 0
        self._path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """TableError: it can't be read, or there is too much of it."""
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
