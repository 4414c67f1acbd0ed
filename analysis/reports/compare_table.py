# SPDX-License-Identifier: BSD-2-Clause
"""A table of several runs: a column a run, and beside each but the first its ratio to the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis import units
from analysis.measures.compared import Compared, meaningless
from analysis.measures.statistics import Mean, differ
from analysis.reports import about
from analysis.reports.document import Table

Value = float | Mean | None
DIFFERS = "!"  # behind a ratio of means that differ by the rule
LITTLE = "~"  # on a column of times or rates that mean little: emulated CPUs


@dataclass(frozen=True)
class Row:
    """Names on the left, one value a run (None: it has nothing), how to write it, and is a ratio of use?"""

    names: tuple[str, ...]
    values: Sequence[Value]
    show: Callable[[float], str]
    ratio: bool = True


def marks(runs: Sequence[Compared], *collectors: str) -> str:
    """ "*" if one of these collectors lost something in one of the runs."""
    return about.MARK if any(about.mark(one.run, *collectors) for one in runs) else ""


def integer(value: float) -> str:
    """A whole number in full."""
    return units.count(int(value))


def union(names: Sequence[Sequence[str]]) -> list[str]:
    """All names, in the order of the first run that has them."""
    return list(dict.fromkeys(name for some in names for name in some))


def show_value(value: Value, show: Callable[[float], str]) -> str:
    """A number, a mean with its interval, or "-"."""
    if value is None:
        return "-"
    return units.mean(value) if isinstance(value, Mean) else show(value)


def ratio(first: Value, other: Value) -> float | None:
    """other / first; None without both, or over 0."""
    a = first.value if isinstance(first, Mean) else first
    b = other.value if isinstance(other, Mean) else other
    return b / a if a and b is not None else None


def show_ratio(first: Value, other: Value, judged: bool) -> str:
    """1.23, with a mark where the means differ by the rule (only if that may be judged)."""
    found = ratio(first, other)
    if found is None:
        return "-"
    text = f"{found:.2f}" if 0.1 <= found < 100 else units.rate(found)
    both = isinstance(first, Mean) and isinstance(other, Mean)
    if judged and both and differ(first, other):  # type: ignore[arg-type]
        text += DIFFERS
    return text


def make_table(
    heads: Sequence[str],
    runs: Sequence[Compared],
    tags: Sequence[str],
    rows: Sequence[Row],
    of_time: bool,
    collectors: Sequence[str] = (),
    least_left: int = 12,
) -> Table:
    """heads: of the names. of_time: the values are times or rates, which emulated CPUs make mean little.

    collectors: where the figures come from; a run in which one of them lost something has a * in its heading.
    """
    titles = [f"<{head}" for head in heads]
    with_ratio = any(row.ratio for row in rows)
    for i, (one, tag) in enumerate(zip(runs, tags, strict=True)):
        lossy = about.mark(one.run, *collectors)
        little = LITTLE if of_time and one.emulated else ""
        titles.append(f"{one.letter} {tag}".strip() + little + lossy)
        if i and with_ratio:
            mark = LITTLE if of_time and meaningless(runs[0], one) else ""
            titles.append(f"&{one.letter}/{runs[0].letter}{mark}")
    cells = []
    for row in rows:
        line = list(row.names)
        for i, (one, value) in enumerate(zip(runs, row.values, strict=True)):
            line.append(show_value(value, row.show))
            if i and with_ratio:
                judged = not (of_time and meaningless(runs[0], one))
                line.append(show_ratio(row.values[0], value, judged) if row.ratio else "")
        cells.append(line)
    return Table(titles, without_repeats(cells, len(heads)), least_left)


def without_repeats(rows: Sequence[Sequence[str]], names: int) -> list[list[str]]:
    """The rows, a name left out where it is that of the row above (the last name always stands)."""
    shown: list[list[str]] = []
    for i, row in enumerate(rows):
        line = list(row)
        for column in range(names - 1):
            if i and list(row[: column + 1]) == list(rows[i - 1][: column + 1]):
                line[column] = ""
        shown.append(line)
    return shown
