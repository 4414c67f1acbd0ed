# SPDX-License-Identifier: BSD-2-Clause
"""Agreement of measured figures with published ones: orders and ratios of each pair of subjects.

Values are never compared with published values: the source's machine was another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from analysis.measures.common.statistics import LEAST_DIFFERENCE, Interval
from analysis.measures.statistics.differences import Difference, compare
from analysis.measures.statistics.holm import holm
from analysis.measures.statistics.ranks import agreement as order_agreement
from analysis.measures.study.cells import Cell, Cells, Row, with_rows
from analysis.measures.study.published import Published

FACTOR = 1.5  # a ratio agrees within this factor
AGREES, DISAGREES, CANNOT_TELL = "agrees", "disagrees", "cannot tell"
SINGLE = "single runs"  # no interval, so no verdict
NOT_TOLD = "not told"  # the source states no order, or no ratio
NOT_COMPARED = "not compared"
EVERY_RATIO = Interval(-math.inf, math.inf)
DEFINITION = (
    "order: of two subjects whose published figures are at least 10 % apart, or whose order the source"
    " states. agrees, disagrees: the measured means differ (95 % intervals apart, and 10 %: Bryant 2002),"
    " in that order or in the other. Published figures within 10 % of each other agree with means that do"
    f" not differ and whose ratio is within a factor of {FACTOR:g}. cannot tell: the means do not differ by"
    " that rule; the difference that these runs would have seen in 80 % of such comparisons stands beside."
    f" ratio: agrees if the measured and the published ratio are within a factor of {FACTOR:g}; cannot tell"
    " if only the measured ratio's 95 % interval (Fieller) has room for the published one. Single runs have"
    " no interval: no order is told from them."
)


@dataclass(frozen=True)
class Pair:
    """Two subjects in one row. Ratios are second / first, as the figures stand."""

    table: str  # its title
    part: str
    row: Row
    first: str
    second: str
    cells: tuple[Cell, Cell]
    difference: Difference | None  # None: a side is not measured
    published_order: int | None  # 1: the first is better, -1: the second, 0: within 10 %; None: not told
    published_ratio: float | None
    published_bound: str  # "<" or ">": of the ratio
    order: str
    ratio: str
    why: str = ""  # why it is not compared

    @property
    def measured_order(self) -> int | None:
        """1: the first has the better mean, -1: the second, 0: equal; None: not known. Without any rule."""
        if self.difference is None or not self.row.better:
            return None
        return _sign(self.difference.first.value, self.difference.other.value, self.row)

    @property
    def factor(self) -> float | None:
        """How far the measured ratio is from the published one, at least 1; None: not known."""
        if self.difference is None or not self.difference.ratio or not self.published_ratio:
            return None
        away = abs(math.log(abs(self.difference.ratio) / self.published_ratio))
        return math.exp(min(away, 700.0))

    @property
    def weight(self) -> float:
        """How far the measured means are apart: larger / smaller, at least 1."""
        ratio = self.difference.ratio if self.difference is not None else None
        return math.exp(min(abs(math.log(abs(ratio))), 700.0)) if ratio else math.inf

    @property
    def virtual(self) -> bool:
        """Whether a side ran in a virtual machine."""
        return any(cell.measured is not None and cell.measured.virtual for cell in self.cells)


@dataclass(frozen=True)
class RowOrder:
    """Kendall's tau of one row: measured means against published figures of the subjects that have both."""

    table: str
    row: str
    subjects: int
    tau: float | None


@dataclass(frozen=True)
class Agreement:
    """All pairs of a study, and its rows."""

    pairs: tuple[Pair, ...]
    rows: tuple[RowOrder, ...]
    corrected: int  # differences by the rule that Welch's test has, too, after Holm's correction

    def orders(self, verdict: str) -> list[Pair]:
        """The pairs with this verdict on their order."""
        return [pair for pair in self.pairs if pair.order == verdict]

    def ratios(self, verdict: str) -> list[Pair]:
        """The pairs with this verdict on their ratio."""
        return [pair for pair in self.pairs if pair.ratio == verdict]


def measure_agreement(tables: Sequence[Cells]) -> Agreement:
    """Every pair of measured subjects of every row of the tables."""
    tables = _each_row_once(tables)
    pairs = [pair for table in tables for pair in _pairs(table)]
    judged = [pair.difference for pair in pairs if pair.difference is not None]
    ps = holm([difference.welch_p for difference in judged])
    corrected = sum(
        bool(difference.rule) and (p is None or p < 0.05) for difference, p in zip(judged, ps, strict=True)
    )
    return Agreement(tuple(pairs), tuple(_row_orders(tables)), corrected)


def _each_row_once(tables: Sequence[Cells]) -> list[Cells]:
    """The tables without rows that an earlier table of the same part and published table has."""
    seen: set[tuple[str, str, str]] = set()
    kept = []
    for table in tables:
        keys = {(table.spec.part, table.spec.published, row.name): row for row in table.rows}
        new = [row for key, row in keys.items() if key not in seen or not table.spec.published]
        seen |= set(keys)
        kept.append(with_rows(table, new))
    return kept


def _pairs(table: Cells) -> Iterator[Pair]:
    for row in table.rows:
        for first, second in combinations(table.subjects, 2):
            cells = table.cell(row, first), table.cell(row, second)
            if cells[0].measured is None or cells[1].measured is None or not row.better:
                continue  # the table and the list of what was not measured have it
            yield _pair(table, row, (first, second), cells)


def _pair(table: Cells, row: Row, names: tuple[str, str], cells: tuple[Cell, Cell]) -> Pair:
    a, b = cells
    assert a.measured is not None and b.measured is not None
    told: int | None = None
    ratio, bound = None, ""
    if a.published is not None and b.published is not None:
        told = published_order(a.published, b.published, row)
        ratio, bound = published_ratio(a.published, b.published)
    why = ""
    if not row.is_comparable:
        why = f"the source has {row.published_unit}, the runs have {row.unit}"
    elif row.of_time and a.measured.virtual != b.measured.virtual:
        why = f"{names[0] if a.measured.virtual else names[1]} ran in a virtual machine"
    elif a.measured.bound or b.measured.bound:
        why = "a measured figure is a lower bound"
    difference = compare(a.measured.values, b.measured.values) if not why else None
    order = NOT_COMPARED if difference is None else _order_verdict(told, difference, row)
    ratio_verdict = NOT_COMPARED if difference is None else _ratio_verdict(ratio, bound, difference)
    return Pair(
        table=table.spec.title,
        part=table.spec.part,
        row=row,
        first=names[0],
        second=names[1],
        cells=cells,
        difference=difference,
        published_order=told,
        published_ratio=ratio,
        published_bound=bound,
        order=order,
        ratio=ratio_verdict,
        why=why,
    )


def _sign(a: float, b: float, row: Row) -> int:
    return 0 if a == b else 1 if row.is_better(a, b) else -1


def published_order(a: Published, b: Published, row: Row) -> int | None:
    """1: a is better, -1: b is, 0: within 10 % of each other, None: the source does not tell."""
    if a.value is not None and b.value is not None:
        if not a.bound and not b.bound:
            is_close = abs(b.value - a.value) < LEAST_DIFFERENCE * abs(a.value)
            return 0 if is_close else _sign(a.value, b.value, row)
        (a_low, a_high), (b_low, b_high) = _range(a.value, a.bound), _range(b.value, b.bound)
        if a_low >= b_high:
            return _sign(1.0, 0.0, row)
        return _sign(0.0, 1.0, row) if b_low >= a_high else None
    if a.rank is not None and b.rank is not None and a.rank != b.rank:
        return 1 if a.rank < b.rank else -1
    return None


def _range(value: float, bound: str) -> tuple[float, float]:
    """Where a published figure lies: "<0.5" is below 0.5."""
    return (-math.inf if bound == "<" else value), (math.inf if bound == ">" else value)


def published_ratio(a: Published, b: Published) -> tuple[float | None, str]:
    """b / a with its bound; None: a value is missing or not above 0, or the bounds leave it open."""
    if a.value is None or b.value is None or a.value <= 0 or b.value <= 0:
        return None, ""
    turned = {"": "", "<": ">", ">": "<"}[a.bound]
    if b.bound and turned and b.bound != turned:
        return None, ""
    return b.value / a.value, b.bound or turned


def _order_verdict(told: int | None, difference: Difference, row: Row) -> str:
    if told is None:
        return NOT_TOLD
    if difference.rule is None:
        return SINGLE
    if told == 0:
        return DISAGREES if difference.rule else AGREES if _is_alike(difference) else CANNOT_TELL
    if not difference.rule:
        return CANNOT_TELL
    return AGREES if _sign(difference.first.value, difference.other.value, row) == told else DISAGREES


def _is_alike(difference: Difference) -> bool:
    """Whether the measured means are known to be near: the ratio's interval is within the factor."""
    interval = difference.ratio_interval
    return interval is not None and interval.low >= 1 / FACTOR and interval.high <= FACTOR


def _ratio_verdict(published: float | None, bound: str, difference: Difference) -> str:
    if published is None or not difference.ratio or difference.ratio < 0:
        return NOT_TOLD if published is None else CANNOT_TELL
    ratio, interval = difference.ratio, difference.ratio_interval
    if interval is None and None not in (difference.first.half_width, difference.other.half_width):
        interval = EVERY_RATIO  # the first mean may be 0
    interval = interval or Interval(ratio, ratio)
    low, high = published / FACTOR, published * FACTOR
    if bound == "<":
        low, inside = 0.0, interval.low < published
    elif bound == ">":
        high, inside = math.inf, interval.high > published
    else:
        inside = interval.low <= published <= interval.high
    if low <= ratio <= high:
        return AGREES
    return CANNOT_TELL if inside else DISAGREES


def _row_orders(tables: Sequence[Cells]) -> Iterator[RowOrder]:
    for table in tables:
        for row in table.rows:
            both = [
                (cell.measured.mean.value, cell.published.value)
                for subject in table.ranked(row)
                if (cell := table.cell(row, subject)).measured is not None
                and cell.published is not None
                and cell.published.value is not None
                and not cell.published.bound
            ]
            if len(both) >= 2 and row.is_comparable:
                tau = order_agreement([a for a, _ in both], [b for _, b in both]).tau
                yield RowOrder(table.spec.title, row.name, len(both), tau)
