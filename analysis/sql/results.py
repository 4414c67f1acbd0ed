# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a query as a text table, CSV or JSON, piece by piece.

Characters of a run's text that could command a terminal are escaped.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from analysis.visible import clean, visible

TEXT_ROWS = 1000
_LETTERS = 300  # of one value in a text table
Rows = Iterator[Sequence[tuple[Any, ...]]]  # in portions


def text(names: Sequence[str], rows: Rows) -> Iterator[str]:
    """A table for reading: TEXT_ROWS rows at most, and their number; a null is -."""
    kept: list[tuple[Any, ...]] = []
    count = 0
    for portion in rows:
        kept += portion[: TEXT_ROWS - len(kept)]
        count += len(portion)
    cells = [[clean(name, 60) for name in names], *([_cell(value) for value in row] for row in kept)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    is_number = [
        all(isinstance(row[column], int | float | Decimal | None) for row in kept)
        for column in range(len(names))
    ]
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        yield "  ".join(padded).rstrip() + "\n"
    if count > len(kept):
        yield f"({len(kept):,} of {count:,} rows: FORMAT=csv or FORMAT=json has all)\n"
    else:
        yield f"({count:,} row{'' if count == 1 else 's'})\n"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _real(value)
    if isinstance(value, list | tuple):
        return clean(", ".join(_cell(part) for part in value), _LETTERS)
    return clean(value, _LETTERS)


def _real(value: float) -> str:
    """Six digits, or all those before the point."""
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def as_csv(names: Sequence[str], rows: Rows) -> Iterator[str]:
    """Comma-separated values with a head line; a null is empty, a list is JSON."""
    yield _csv_lines([_distinct(names)])
    for portion in rows:
        yield _csv_lines([[_csv_value(value) for value in row] for row in portion])


def _csv_lines(rows: Sequence[Sequence[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    return visible(json.dumps(_plain(value)) if isinstance(value, list | tuple | dict) else str(value))


def as_json(names: Sequence[str], rows: Rows) -> Iterator[str]:
    """A JSON array, one object per line; NaN and infinity, which JSON lacks, are null."""
    keys, before = _distinct(names), "[\n"
    for portion in rows:
        for row in portion:
            yield before + json.dumps(dict(zip(keys, map(_plain, row), strict=True)), allow_nan=False)
            before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _plain(value: Any) -> Any:
    """The value as JSON has it; dates and the like as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return float(value) if isinstance(value, Decimal) else str(value)


def _distinct(names: Sequence[str]) -> list[str]:
    """Escaped names, with _2, _3, ... where a query names two columns alike."""
    found: list[str] = []
    for name in map(visible, names):
        tries = (name if number == 1 else f"{name}_{number}" for number in range(1, len(names) + 1))
        found.append(next(each for each in tries if each not in found))
    return found


FORMATS: dict[str, Callable[[Sequence[str], Rows], Iterator[str]]] = {
    "text": text,
    "csv": as_csv,
    "json": as_json,
}
