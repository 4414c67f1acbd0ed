# SPDX-License-Identifier: BSD-2-Clause
"""Read a .jsonl file (one JSON object a line) of the run; lines that are no such thing are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.errors import TableError
from analysis.files import parse_json, read_limited

LINES_LIMIT_BYTES = 256 * 1024 * 1024


def read_lines(path: Path) -> tuple[list[dict[str, Any]], int, int]:
    """The objects, how many lines were no JSON object, and the file's size in bytes."""
    data = read_limited(path, LINES_LIMIT_BYTES)
    rows: list[dict[str, Any]] = []
    bad = 0
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            value = parse_json(line, path.name)
        except TableError:
            bad += 1
            continue
        if isinstance(value, dict):
            rows.append(value)
        else:
            bad += 1
    return rows, bad, len(data)
