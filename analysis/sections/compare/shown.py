# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a comparison as they are shown: rounded so that each column still sums to its last row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis import units
from analysis.measures.compare.time_apart import NOISE, OPEN, Apart, Cause, TimeApart
from analysis.measures.ledger import LAST

FINEST, RESOLUTION = 3, 100  # decimals at most; parts of the largest difference that are told apart
LEAST_NAMED = 0.05  # of the largest difference: a smaller one is not named in a sentence
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


def items(shown: Shown, k: int) -> list[str]:
    """The causes of a side's difference: the largest, then the sum of others, then what is not known."""
    largest = max(abs(row.apart(k)) for row in shown.rows)
    known = [row for row in shown.rows if row.cause is None or row.cause.key not in LAST]
    named = [row for row in known if row.cause is not None and abs(row.apart(k)) >= LEAST_NAMED * largest > 0]
    named.sort(key=lambda row: -abs(row.apart(k)))
    rest = sum(row.apart(k) for row in known) - sum(row.apart(k) for row in named)
    said = [f"{row.text} {shown.signed(row.apart(k))}" for row in named]
    if rest:
        said.append(f"others {shown.signed(rest)}")
    unknown = [row for row in shown.rows if row.cause is not None and row.cause.key in LAST]
    said += [f"{row.text} {shown.signed(row.apart(k))}" for row in unknown]
    return said if unknown else [*said, f"not explained {shown.signed(0)}"]


def claim(time: TimeApart, shown: Shown, k: int, first: str, other: str) -> str:
    """ "xfs (B) is 9.3 s faster than ext3 (A): journal or log space -13.0, on a CPU +2.2, ..."."""
    apart, whole = shown.total[k] - shown.total[0], time.whole[k]
    half = ""
    if whole.interval is not None:
        half = f" +-{units.figures((whole.interval.high - whole.interval.low) / 2)}"
    by = f" by {time.unit}" if time.unit else ""
    if apart:
        size = f"{shown.number(abs(apart))}{half} s{by}"
        text = f"{other} is {size} {'faster' if apart < 0 else 'slower'} than {first}"
        text += ", which is within noise" if whole.verdict in (NOISE, OPEN) else ""
    else:
        text = f"{other} takes as long as {first}"
    return f"{text}: {', '.join(items(shown, k))}"


def interval_text(apart: Apart | None) -> str:
    """ "+-0.80  within noise"; "" of single runs."""
    if apart is None or apart.interval is None:
        return ""
    half = (apart.interval.high - apart.interval.low) / 2
    return f"{f'+-{units.figures(half)}':<8} {apart.verdict}"


def _text(cause: Cause) -> str:
    return cause.text.removeprefix("the ")


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
