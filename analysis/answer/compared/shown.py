# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a comparison as they are shown: rounded so that each column still sums to its last row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.answer.time_spent import TEXTS
from analysis.measures.compare.time_apart import Cause, TimeApart
from analysis.measures.ledger import LAST

FINEST, RESOLUTION = 3, 100  # decimals at most; parts of the largest difference that are told apart
LEAST_SHOWN = 0.02  # of the largest difference: a cause with less is summed up


@dataclass(frozen=True)
class ShownRow:
    """One cause, or several small ones (cause is None). units: by known side, in Shown's last decimal."""

    text: str
    units: Sequence[int]
    cause: Cause | None

    def apart(self, k: int) -> int:
        """Units more than in the first side."""
        return self.units[k] - self.units[0]


@dataclass(frozen=True)
class Shown:
    """Rows and their sum, as whole numbers of the last decimal."""

    decimals: int
    rows: Sequence[ShownRow]  # large ones, small ones in one row, what is not known
    total: Sequence[int]  # by known side

    def number(self, units: int) -> str:
        """1,234.5."""
        return f"{units / 10**self.decimals:,.{self.decimals}f}"

    def signed(self, units: int) -> str:
        """+1.2, -0.3, 0.0."""
        return ("+" if units > 0 else "") + self.number(units)


def shown_rows(time: TimeApart, most: int) -> Shown:
    """The rows with most difference, at most so many, the others summed up; what is not known stays apart."""
    weights = {cause.key: _weight(cause, time) for cause in time.causes}
    largest = max(weights.values(), default=0.0)
    decimals = _decimals(largest)
    scale = 10.0**decimals
    columns = [
        _whole_numbers([cause.mean_s(k) for cause in time.causes], scale) for k in range(len(time.known))
    ]
    units = {cause.key: [column[n] for column in columns] for n, cause in enumerate(time.causes)}
    known = [cause for cause in time.causes if cause.key not in LAST]
    known.sort(key=lambda cause: -weights[cause.key])
    large = [cause for cause in known[:most] if weights[cause.key] >= LEAST_SHOWN * largest > 0]
    small = known[len(large) :]
    rows = [ShownRow(_text(cause), units[cause.key], cause) for cause in large]
    if len(small) == 1:
        rows.append(ShownRow(_text(small[0]), units[small[0].key], small[0]))
    elif small:
        sums = [sum(units[cause.key][k] for cause in small) for k in range(len(time.known))]
        rows.append(ShownRow(f"{len(small)} smaller", sums, None))
    rows += [ShownRow(_text(cause), units[cause.key], cause) for cause in time.causes if cause.key in LAST]
    return Shown(decimals, rows, [sum(column) for column in columns])


def _text(cause: Cause) -> str:
    return TEXTS.get(cause.key, cause.text)


def _weight(cause: Cause, time: TimeApart) -> float:
    """The largest difference from the first side; where nothing is compared, the largest time."""
    means = [cause.mean_s(k) for k in range(len(time.known))]
    return max(abs(one - means[0]) for one in means[1:]) if time.is_compared else max(means)


def _decimals(largest: float) -> int:
    for decimals in range(1, FINEST):
        if 10.0**-decimals <= largest / RESOLUTION:
            return decimals
    return FINEST


def _whole_numbers(values: Sequence[float], scale: float) -> list[int]:
    """The values as whole numbers that sum to their rounded sum, each less than 1 from its value."""
    scaled = [value * scale for value in values]
    floors = [math.floor(one) for one in scaled]
    missing = round(math.fsum(scaled)) - sum(floors)
    by_rest = sorted(range(len(values)), key=lambda n: floors[n] - scaled[n])
    for n in by_rest[: max(missing, 0)]:
        floors[n] += 1
    return floors
