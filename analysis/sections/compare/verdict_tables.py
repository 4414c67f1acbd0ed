# SPDX-License-Identifier: BSD-2-Clause
"""Verdicts as tables, sentences, and the rows of compare.json and compare.csv: of runs and of sweeps."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from analysis import units
from analysis.measures.compare.verdicts import (
    BETTER,
    CANNOT_TELL,
    MARGIN_PCT,
    NO_WORSE,
    NOT_SEEN,
    RULE,
    SIGNIFICANT,
    SMALL,
    WORSE,
    Cause,
    Figure,
    Verdict,
    Verdicts,
    percent,
)
from analysis.render.document import Section
from analysis.sections.compare.differences import SHOW, UNITS
from analysis.sections.compare.table import DIFFERS, ComparedTable

EXIT_CODES = {NO_WORSE: 0, WORSE: 1, CANNOT_TELL: 3}
SHORT = {NOT_SEEN: "none seen", SMALL: "small"}  # in the narrow column of a table
INTEREST = (WORSE, CANNOT_TELL, SMALL, BETTER, NOT_SEEN)  # the order of rows with a difference
MOST_ROWS = 60
LEAST_NAME = 17
CSV_COLUMNS = (
    *("verdict", "first", "other", "where", "figure", "unit", "kind", "better", "headline"),
    *("n_first", "n_other", "mean_first", "mean_other", "half_width_95_first", "half_width_95_other"),
    *("ratio", "ratio_low_95", "ratio_high_95", "rule", "p_holm", "seen_pct", "why"),
)


def show(figure: Figure, value: float) -> str:
    """A value of the figure, with its unit unless name_of() has the unit."""
    return SHOW.get(figure.unit, units.rate)(value)


def name_of(figure: Figure, where: str = "") -> str:
    """The figure's name; behind it the unit that its values do not show, before it the configuration."""
    unit = UNITS.get(figure.unit, "" if figure.unit in SHOW else figure.unit)
    is_named = bool(figure.unit) and figure.name.endswith(figure.unit)  # create MB/s, create ops/s
    name = f"{figure.name}, {unit}" if unit and not is_named else figure.name
    return f"{where}: {name}" if where else name


def sentence(verdicts: Verdicts) -> str:
    """The overall verdict and its reason, in one line."""
    return f"{verdicts.overall}: {verdicts.why}"


def fill(section: Section, verdicts: Verdicts) -> None:
    """Put the overall verdict, a table for each two sides, causes and reasons into the section."""
    section.facts.append(("verdict", sentence(verdicts)))
    sides = dict.fromkeys((one.pair.first, one.pair.other) for one in verdicts.verdicts)
    for first, other in sides:
        these = [one for one in verdicts.verdicts if (one.pair.first, one.pair.other) == (first, other)]
        rows = sorted((one for one in these if one.p is not None), key=interest)
        if rows:
            cells = [_row(one) for one in rows[:MOST_ROWS]]
            alike = [
                i for i, one in enumerate(rows[:MOST_ROWS]) if _is_nothing(one) and not one.figure.is_headline
            ]
            heads = ("<verdict", "<figure", first, other, "&ratio (95 %)", "p", "&sees %")
            section.tables.append(ComparedTable(heads, cells, LEAST_NAME, cells, 2, frozenset(alike)))
        if len(rows) > MOST_ROWS:
            section.notes.append(f"{len(rows) - MOST_ROWS:,} more in compare.json")
        section.notes += _beside(these)
        section.notes += _reasons(these)
    section.definition = RULE if section.tables else ""


def interest(verdict: Verdict) -> tuple[bool, int, float]:
    """Key that sorts verdicts: headline figures first, then what is worse or open."""
    rank = len(INTEREST) if _is_nothing(verdict) else INTEREST.index(verdict.word)
    return not verdict.figure.is_headline, rank, verdict.p or 0.0


def _is_nothing(verdict: Verdict) -> bool:
    """Whether neither the rule nor p says that the sides differ, however many runs there are."""
    difference = verdict.difference
    is_open = verdict.word in (NOT_SEEN, CANNOT_TELL) and (verdict.p is None or verdict.p >= SIGNIFICANT)
    return is_open and (difference is None or not difference.rule)


def _row(verdict: Verdict) -> list[str]:
    difference, figure = verdict.difference, verdict.figure
    assert difference is not None and verdict.p is not None
    interval, seen = difference.ratio_interval, difference.seen_pct
    ratio = "-" if difference.ratio is None else factor(difference.ratio)
    if interval is not None:
        ratio += f" ({factor(interval.low)}-{factor(interval.high)})"
    return [
        SHORT.get(verdict.word, verdict.word),
        name_of(figure, verdict.pair.where),
        show(figure, difference.first.value),
        show(figure, difference.other.value),
        ratio,
        show_p(verdict.p),
        percent(seen) if seen is not None else "-",
    ]


def factor(ratio: float) -> str:
    """A ratio: 0.82, 1,230."""
    return f"{ratio:.2f}" if 0.1 <= abs(ratio) < 100 else units.figures(ratio)


def show_p(p: float) -> str:
    """A probability: 0.034, <.001."""
    return f"{p:.3f}" if p >= 0.001 else "<.001"


def _beside(verdicts: Sequence[Verdict]) -> list[str]:
    """What differs most beside worse figures, a sentence for each configuration that has some."""
    notes = []
    for where in dict.fromkeys(one.pair.where for one in verdicts if one.word == WORSE):
        worse = [one for one in verdicts if one.word == WORSE and one.pair.where == where]
        names = ", ".join(one.figure.name for one in worse[:3]) + (", ..." if len(worse) > 3 else "")
        causes = "; ".join(_cause(cause) for cause in worse[0].causes)
        place = f"{where}, " if where else ""
        found = f"differs most: {causes}" if causes else "no recorded cause is 10 % apart"
        notes.append(f"beside the worse {place}{names} ({worse[0].pair.other}) {found}")
    return notes


def _cause(cause: Cause) -> str:
    """seeks 1,200 to 2,520 (ratio 2.10!)."""
    difference, figure = cause.difference, cause.figure
    mark = DIFFERS if cause.differs else ""
    ratio = f" (ratio {factor(difference.ratio)}{mark})" if difference.ratio is not None else mark
    return (
        f"{name_of(figure)} {show(figure, difference.first.value)} to"
        f" {show(figure, difference.other.value)}{ratio}"
    )


def _reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """The figures without a test, by reason."""
    reasons = Counter(one.why for one in verdicts if one.p is None)
    return [f"{CANNOT_TELL}, {count} figure{'s'[: count > 1]}: {why}" for why, count in reasons.items()]


def as_json(verdicts: Verdicts) -> dict[str, Any]:
    """The keys that the verdicts add to compare.json."""
    return {
        "verdict": {
            "overall": verdicts.overall,
            "why": verdicts.why,
            "exit_code": EXIT_CODES[verdicts.overall],
            "margin_pct": MARGIN_PCT,
        },
        "verdicts": [
            dict(zip(CSV_COLUMNS, _facts(one), strict=True))
            | {"causes": [_cause_facts(cause) for cause in one.causes]}
            for one in verdicts.verdicts
        ],
    }


def as_csv(verdicts: Verdicts) -> str:
    """All verdicts, a line each."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for one in verdicts.verdicts:
        writer.writerow([_cell(fact) for fact in _facts(one)])
    return out.getvalue()


def _cell(fact: Any) -> Any:
    """The fact as a cell: a name that a spreadsheet would take for a formula gets a quote."""
    if isinstance(fact, str) and fact[:1] in tuple("=+-@"):
        return f"'{fact}"
    return "" if fact is None else int(fact) if isinstance(fact, bool) else fact


def _facts(verdict: Verdict) -> list[Any]:
    """The values of CSV_COLUMNS; None: not known."""
    pair, figure, difference = verdict.pair, verdict.figure, verdict.difference
    head: list[Any] = [verdict.word, pair.first, pair.other, pair.where]
    head += [figure.name, figure.unit, figure.kind, figure.better, figure.is_headline]
    if difference is None:
        return [*head, len(figure.first), len(figure.other), *[None] * 10, verdict.why]
    first, other, interval = difference.first, difference.other, difference.ratio_interval
    return [
        *(*head, first.n, other.n, _number(first.value), _number(other.value)),
        *(_number(first.half_width), _number(other.half_width), _number(difference.ratio)),
        *(_number(interval.low if interval else None), _number(interval.high if interval else None)),
        *(difference.rule, _number(verdict.p), _number(difference.seen_pct), verdict.why),
    ]


def _cause_facts(cause: Cause) -> dict[str, Any]:
    difference = cause.difference
    return {
        "figure": cause.figure.name,
        "unit": cause.figure.unit,
        "mean_first": _number(difference.first.value),
        "mean_other": _number(difference.other.value),
        "ratio": _number(difference.ratio),
        "rule": cause.differs,
    }


def _number(value: float | None) -> float | None:
    """The number with 9 digits, as JSON has neither infinity nor NaN."""
    return float(f"{value:.9g}") if value is not None and math.isfinite(value) else None
