# SPDX-License-Identifier: BSD-2-Clause
"""Read NAME.csv: the figures that a study published, in long form."""

import csv
import math
from dataclasses import asdict, dataclass
from pathlib import Path

COLUMNS = ("table", "row", "subject", "value", "unit", "bound", "note")
BOUNDS = ("", "<", ">")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Figure:
    """One published figure, or a place in an order where the study names no figure."""

    table: str
    row: str
    subject: str
    value: float | None  # None: the note says what was published: first, second, last, …
    unit: str
    bound: str  # "<" or ">": the study says only that the figure is below or above the value
    note: str

    def as_json(self) -> dict[str, str | float | None]:
        """Return the figure for sweep.json."""
        return asdict(self)


def read_published(path: Path) -> tuple[Figure, ...]:
    """Return the figures of a CSV file, none if it does not exist.

    Raises OSError, and ValueError for a fault.
    """
    if not path.exists():
        return ()
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{path.name} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        lines = list(csv.reader(data.decode().splitlines(), strict=True))
    except csv.Error as error:
        raise ValueError(f"{path.name}: {error}") from None
    if not lines or tuple(lines[0]) != COLUMNS:
        raise ValueError(f"{path.name}: the first line must be {','.join(COLUMNS)}")
    figures = tuple(_figure(path.name, number, line) for number, line in enumerate(lines[1:], 2))
    seen: set[tuple[str, str, str]] = set()
    for number, figure in enumerate(figures, 2):
        place = (figure.table, figure.row, figure.subject)
        if place in seen:
            raise ValueError(f"{path.name}, line {number}: {', '.join(place)} stands there twice")
        seen.add(place)
    return figures


def _figure(name: str, number: int, line: list[str]) -> Figure:
    where = f"{name}, line {number}"
    if len(line) != len(COLUMNS):
        raise ValueError(f"{where}: {len(line)} columns, not {len(COLUMNS)}")
    table, row, subject, text, unit, bound, note = line
    if not all((table, row, subject, unit)) or not all(cell.isprintable() for cell in line):
        raise ValueError(f"{where}: table, row, subject and unit must be texts")
    if bound not in BOUNDS:
        raise ValueError(f"{where}: the bound {bound!r} is neither < nor >")
    value: float | None = None
    if text:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{where}: the value {text!r} is not a number") from None
        if not math.isfinite(value):
            raise ValueError(f"{where}: the value {text!r} is not a number")
    elif not note:
        raise ValueError(f"{where}: neither a value nor a note")
    return Figure(table, row, subject, value, unit, bound, note)
