# SPDX-License-Identifier: BSD-2-Clause
"""A table of several runs: a column a run or group of repetitions, each with its ratio to the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis import units
from analysis.measures.app.unseen import at_least
from analysis.measures.common.statistics import Mean, differ, mean_ci
from analysis.measures.compare.compared_run import Compared
from analysis.measures.compare.differences import Side, sides
from analysis.render.document import Table
from analysis.sections.marks import MARK, mark

# of the units and prefixes that the figures are shown with
FACTORS = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12},
    **{"PB": 1e15, "EB": 1e18, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18},
}
Value = float | Mean | None
DIFFERS = "!"  # behind a ratio of means that differ by the rule
LITTLE = "~"  # on a column of times or rates that mean little: emulated CPUs


@dataclass(frozen=True)
class Row:
    """Names on the left, one value a run (None: no value), the format of values, whether a ratio is shown.

    is_sum: of repetitions the sum is shown, not the mean. bounds: which values are lower bounds; empty: none.
    """

    names: tuple[str, ...]
    values: Sequence[Value]
    show: Callable[[float], str]
    ratio: bool = True
    is_sum: bool = False
    bounds: Sequence[bool] = ()

    def is_bound(self, side: Side) -> bool:
        """Whether a value of the side is a lower bound: then its mean is one, and has no ratio."""
        return bool(self.bounds) and any(self.bounds[i] for i in side)


@dataclass(frozen=True)
class ComparedTable(Table):
    """A table that knows which of its rows do not differ by the rule."""

    cells: Sequence[Sequence[str]] = ()  # the rows with all their names
    names: int = 0  # how many of a row's cells are names
    alike: frozenset[int] = frozenset()

    def differing(self) -> ComparedTable:
        """Without the rows that do not differ."""
        cells = [row for i, row in enumerate(self.cells) if i not in self.alike]
        return ComparedTable(
            self.heads, without_repeats(cells, self.names), self.least_left, cells, self.names
        )


def marks(runs: Sequence[Compared], *collectors: str) -> str:
    """ "*" if one of these collectors lost something in one of the runs."""
    return MARK if any(mark(one.run, *collectors) for one in runs) else ""


def integer(value: float) -> str:
    """A whole number in full; a mean of such numbers need not be whole."""
    return units.count(int(value)) if float(value).is_integer() else units.rate(value)


def union(names: Sequence[Sequence[str]]) -> list[str]:
    """All names, in the order of the first run that has them."""
    return list(dict.fromkeys(name for group in names for name in group))


def rates(runs: Sequence[Compared], amounts: Sequence[float | None], unit: float) -> list[Value]:
    """Amounts in units of `unit`, per second of each run's recorded time."""
    per_s: list[Value] = []
    for one, amount in zip(runs, amounts, strict=True):
        per_s.append(None if amount is None else amount / unit / one.results.window.elapsed_s)
    return per_s


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
    quotient = ratio(first, other)
    if quotient is None:
        return "-"
    text = f"{quotient:.2f}" if 0.1 <= quotient < 100 else units.rate(quotient)
    both = isinstance(first, Mean) and isinstance(other, Mean)
    if judged and both and differ(first, other):  # type: ignore[arg-type]
        text += DIFFERS
    return text


def with_half(value: float, half: float, show: Callable[[float], str]) -> str:
    """226 +-169 ms; 1.13 +-0.0108 GB: both in the unit of the larger."""
    text, wide = show(value), show(half)
    number, space, unit = text.rpartition(" ")
    _, half_space, half_unit = wide.rpartition(" ")
    if unit == half_unit or not (space or half_space):
        return f"{number} +-{wide}" if space else f"{text} +-{wide}"
    unit = unit if value >= half else half_unit
    by = FACTORS.get(unit, 1)
    if show is units.ns:  # its numbers are in nanoseconds, whatever unit they are shown in
        by /= FACTORS["ns"]
    return f"{units.figures(value / by)} +-{units.figures(half / by)} {unit}"


def letters(side: Side, runs: Sequence[Compared]) -> str:
    """The runs of a side: A+C."""
    return "+".join(runs[i].letter for i in side)


def _of_side(row: Row, side: Side) -> Value:
    """A single run's value, or the mean of repetitions (of their own means, where a value is one)."""
    if len(side) == 1:
        return row.values[side[0]]
    values = (row.values[i] for i in side)
    known = [value.value if isinstance(value, Mean) else value for value in values if value is not None]
    return sum(known) if known and row.is_sum else mean_ci(known)


def _show_side(value: Value, side: Side, show: Callable[[float], str]) -> str:
    if len(side) > 1 and isinstance(value, Mean) and value.half_width is not None:
        return with_half(value.value, value.half_width, show)
    if len(side) > 1 and isinstance(value, Mean):  # only one of them has it
        return show(value.value)
    return show_value(value, show)


def _verdict(first: Value, other: Value) -> bool | None:
    """Whether the values differ by the rule; None: single observations."""
    if first is None and other is None:
        return False
    both = isinstance(first, Mean) and isinstance(other, Mean)
    return differ(first, other) if both else None  # type: ignore[arg-type]


def _ratio_cell(row: Row, first: Value, other: Value, is_bound: bool) -> str:
    if not row.ratio:
        return ""
    return "-" if is_bound else show_ratio(first, other, False)


def make_table(
    heads: Sequence[str],
    runs: Sequence[Compared],
    tags: Sequence[str],
    rows: Sequence[Row],
    of_time: bool,
    collectors: Sequence[str] = (),
    least_left: int = 12,
    is_judged: bool = True,
) -> ComparedTable:
    """heads: of the names. of_time: the values are times or rates, which emulated CPUs make mean little.

    Repetitions are one column. collectors: where the figures come from; a column in which one of them lost
    enough to be marked has a * in its heading. is_judged: rows get a verdict.
    """
    all_sides = sides(runs)
    titles = [f"<{head}" for head in heads]
    with_ratio = any(row.ratio for row in rows) and len(all_sides) > 1
    little = [LITTLE if of_time and any(runs[i].emulated for i in side) else "" for side in all_sides]
    for k, side in enumerate(all_sides):
        lossy = marks([runs[i] for i in side], *collectors)
        tag = " ".join(part for part in (f"n={len(side)}" if len(side) > 1 else "", tags[side[0]]) if part)
        titles.append(f"{letters(side, runs)} {tag}".strip() + little[k] + lossy)
        if k and with_ratio:
            titles.append(f"&{letters(side, runs)}/{letters(all_sides[0], runs)}{little[0] or little[k]}")
    cells, alike = [], set()
    for number, row in enumerate(rows):
        line = list(row.names)
        values = [_of_side(row, side) for side in all_sides]
        verdicts = []
        for k, (side, value) in enumerate(zip(all_sides, values, strict=True)):
            text = at_least(_show_side(value, side, row.show), row.is_bound(side))
            is_bound = row.is_bound(all_sides[0]) or row.is_bound(side)
            if not k:
                line.append(text)
                continue
            verdict = None if little[0] or little[k] or is_bound else _verdict(values[0], value)
            verdicts.append(verdict)
            mark = DIFFERS if verdict and is_judged else ""
            if with_ratio:
                line += [text, _ratio_cell(row, values[0], value, is_bound) + mark]
            else:
                line.append(text + mark)
        if is_judged and verdicts and all(verdict is False for verdict in verdicts):
            alike.add(number)
        cells.append(line)
    shown = without_repeats(cells, len(heads))
    has_repetitions = any(len(side) > 1 for side in all_sides)
    return ComparedTable(
        titles, shown, least_left, cells, len(heads), frozenset(alike if has_repetitions else ())
    )


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
