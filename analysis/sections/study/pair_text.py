# SPDX-License-Identifier: BSD-2-Clause
"""A pair of subjects as text: measured and published ratio, verdict, and the measures beside it."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.measures.common.statistics import Mean
from analysis.measures.study.agreement import DISAGREES, Pair
from analysis.measures.study.cells import Row
from analysis.measures.study.evidence import BELOW, Beside
from analysis.measures.study.results import StudyResults
from analysis.sections.study.cell_text import number, unit_of

Names = Mapping[tuple[str, str], str]  # of a row, by its table's title and its name


def row_names(results: StudyResults) -> Names:
    """Names of rows with their unit; where several tables have a row of one name, with the table's title."""
    tables: dict[str, set[str]] = {}
    for pair in results.agreement.pairs:  # which has a row that two tables share once
        tables.setdefault(pair.row.name, set()).add(pair.table)
    return {
        (table.spec.title, row.name): _row_name(
            table.spec.title if len(tables.get(row.name, ())) > 1 else "", row
        )
        for table in results.tables
        for row in table.rows
    }


def _row_name(title: str, row: Row) -> str:
    unit = f" ({unit_of(row)})" if unit_of(row) else ""
    return f"{title}, {row.name}{unit}" if title else f"{row.name}{unit}"


def ratio(value: float) -> str:
    """A ratio in three figures."""
    return units.figures(value)


def here_text(pair: Pair) -> str:
    """The measured ratio with its interval."""
    difference = pair.difference
    if difference is None or difference.ratio is None:
        return "-"
    between = difference.ratio_interval
    if between is not None:
        return f"{ratio(difference.ratio)} [{ratio(between.low)}..{ratio(between.high)}]"
    is_single = None in (difference.first.half_width, difference.other.half_width)
    return f"{ratio(difference.ratio)} ({'single' if is_single else 'no bound'})"


def paper_text(pair: Pair) -> str:
    """The published ratio; else which of both the source has first."""
    if pair.published_ratio is not None:
        return f"{pair.published_bound}{ratio(pair.published_ratio)}"
    if pair.published_order is None:
        return "-"
    return f"{pair.first if pair.published_order > 0 else pair.second} first"


def verdict_text(pair: Pair) -> str:
    """What disagrees."""
    if pair.order == DISAGREES:
        if pair.published_order == 0:
            return "order: near each other in the paper"
        return "order: the other one is better here"
    return f"ratio: {ratio(pair.factor)} times off" if pair.factor is not None else "ratio"


def beside_text(beside: Beside) -> tuple[str, str]:
    """The measure of the first and of the second subject."""
    return _mean(beside.first, beside.unit), _mean(beside.second, beside.unit)


def _mean(mean: Mean | None, unit: str) -> str:
    if mean is None:
        return BELOW
    suffix = {"share": " %", "MB/s": " MB/s", "/s": "/s", "s": " s"}.get(unit, "")
    return number(mean.value, unit) + suffix


def beside_sentence(beside: Beside) -> str:
    """One measure of both subjects: "seeks 12,300 against 1,210"."""
    first, second = beside_text(beside)
    return f"{beside.measure} {first} against {second}"
