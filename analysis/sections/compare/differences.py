# SPDX-License-Identifier: BSD-2-Clause
"""Differences: measure by measure both sides, their difference, ratio and verdict.

As a section for people, and as compare.csv for programs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from analysis import units
from analysis.measures.app.unseen import DEFINITION as AT_LEAST_MEANS
from analysis.measures.app.unseen import at_least
from analysis.measures.common.statistics import DIFFERENCE, Interval, Mean, differ
from analysis.measures.compare.compared_measures import Measure, causes, outcomes
from analysis.measures.compare.compared_run import Compared, meaningless
from analysis.measures.compare.differences import (
    ALIKE,
    THEY_DIFFER,
    Side,
    by_weight,
    difference,
    mean_of,
    sides,
)
from analysis.render.document import Section, Table
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import (
    DIFFERS,
    LITTLE,
    ComparedTable,
    integer,
    letters,
    show_ratio,
    union,
    with_half,
)
from analysis.sections.marks import mark

MOST_ROWS = 30
LEAST_NAME = 20  # characters of a measure's name in a line, before the table is continued below
CSV_COLUMNS = (
    *("measure", "unit", "is_outcome", "side", "n", "value", "half_width_95", "first_side", "first_value"),
    *("difference", "difference_low_95", "difference_high_95", "ratio", "ratio_low_95", "ratio_high_95"),
    *("verdict", "lost_events", "is_lower_bound"),
)
SHOW: dict[str, Callable[[float], str]] = {
    "s": lambda v: f"{units.seconds(v)} s",
    "MB/s": units.rate,
    "/s": units.rate,
    "B": units.bytes_,
    "ns": units.ns,
    "share": units.percent,
    "": integer,
}
UNITS = {
    "share": "%",
    "MB/s": "MB/s",
    "/s": "per second",
}  # shown with the name; of the others, with the number


def _name(measure: Measure) -> str:
    return f"{measure.name}, {UNITS[measure.unit]}" if measure.unit in UNITS else measure.name


def _value(mean: Mean | None, show: Callable[[float], str]) -> str:
    if mean is None:
        return "-"
    return show(mean.value) if mean.half_width is None else with_half(mean.value, mean.half_width, show)


def _change(value: float | None, interval: Interval | None, show: Callable[[float], str]) -> str:
    """+1.2 +-0.3."""
    if value is None:
        return "-"
    sign = "+" if value > 0 else "-" if value < 0 else ""
    if interval is None:
        return sign + show(abs(value))
    return sign + with_half(abs(value), (interval.high - interval.low) / 2, show)


def _heads(runs: Sequence[Compared], tags: Sequence[str], all_sides: Sequence[Side]) -> list[str]:
    heads = ["<"]
    for k, side in enumerate(all_sides):
        times = f" n={len(side)}" if len(side) > 1 else ""
        heads.append(f"{letters(side, runs)}{times}" + (f"\n{tags[side[0]]}" if tags[side[0]] else ""))
        if k:
            heads += ["&change", "&ratio"]
    return heads


def _row(measure: Measure, runs: Sequence[Compared], all_sides: Sequence[Side]) -> list[str]:
    show = SHOW[measure.unit]
    lossy = any(mark(runs[i].run, *measure.collectors) for side in all_sides for i in side)
    cells = [_name(measure) + (" *" if measure.collectors and lossy else "")]
    for k, side in enumerate(all_sides):
        cells.append(at_least(_value(mean_of(measure, side), show), measure.is_bound(side)))
        if k:
            d = difference(measure, runs, all_sides[0], side)
            sign = DIFFERS if d.verdict == THEY_DIFFER else "" if d.is_judged else LITTLE
            ratio = "-" if d.is_bound else show_ratio(d.first, d.other, False) + sign
            cells += [_change(d.value, d.interval, show), ratio]
    return cells


def _repetitions(runs: Sequence[Compared], all_sides: Sequence[Side]) -> str:
    """Which runs are repetitions, and which are single observations."""
    several = [letters(side, runs) for side in all_sides if len(side) > 1]
    single = [letters(side, runs) for side in all_sides if len(side) == 1]
    sentences = []
    if several:
        sentences.append(
            f"{', '.join(several)}: repetitions (same options, kernel and machine): means +- 95 % intervals"
        )
    if single:
        sentences.append(
            f"{', '.join(single)}: single observation{'s' if len(single) > 1 else ''}: no verdict on"
            " differences"
        )
    return "; ".join(sentences)


def _is_alike(measure: Measure, runs: Sequence[Compared], all_sides: Sequence[Side]) -> bool:
    """Whether the verdict on all sides is that they do not differ from the first."""
    every = [difference(measure, runs, all_sides[0], side) for side in all_sides[1:]]
    return all(one.verdict == ALIKE for one in every)


def _counted(runs: Sequence[Compared], all_sides: Sequence[Side]) -> str:
    """What the mark means, and how many of the measures have it."""
    measures = [*outcomes(runs), *causes(runs)]
    every = [[difference(one, runs, all_sides[0], side) for side in all_sides[1:]] for one in measures]
    differing = sum(any(one.verdict == THEY_DIFFER for one in some) for some in every)
    return f"{DIFFERS}: differs by the rule; {differing} of {len(measures)} figures do"


def judged(runs: Sequence[Compared]) -> list[str]:
    """Where runs are repetitions: which figures differ by the rule, a sentence for each side."""
    all_sides = sides(runs)
    measures = [*outcomes(runs), *causes(runs)]
    sentences = []
    for side in all_sides[1:]:
        which = f"{letters(side, runs)} against {letters(all_sides[0], runs)}"
        if min(len(side), len(all_sides[0])) < 2:
            sentences.append(f"{which}: single observations, no verdict on differences")
            continue
        verdicts = [difference(one, runs, all_sides[0], side).verdict for one in measures]
        names = [
            _name(measure)
            for measure, verdict in zip(measures, verdicts, strict=True)
            if verdict == THEY_DIFFER
        ]
        named = f": {'; '.join(names)}" if names else ""
        sentences.append(f"{which}: {len(names)} of {len(measures)} figures differ by the rule{named}")
    return sentences or [f"all runs are repetitions with the same options: {letters(all_sides[0], runs)}"]


def build_differences(runs: Runs, tags: Tags) -> list[Section]:
    """What differs most, as far as there is room, and which differences the rule confirms."""
    section = Section()
    all_sides = sides(runs)
    if len(all_sides) == 1:
        section.absent = f"all runs are repetitions with the same options: {letters(all_sides[0], runs)}"
        return [section]
    heads = _heads(runs, tags.short, all_sides)
    first = [_row(measure, runs, all_sides) for measure in outcomes(runs)]
    measures = by_weight(causes(runs), runs, all_sides)
    is_alike = [_is_alike(measure, runs, all_sides) for measure in measures]
    # what does not differ comes last, and is left out of the short text
    rest = [_row(measure, runs, all_sides) for measure in measures[:MOST_ROWS]]
    alike = frozenset(i for i in range(len(rest)) if is_alike[i])
    heads[0] = "<outcome"
    section.tables.append(Table(heads, first, LEAST_NAME))
    if rest:
        explaining = ["<possible cause", *heads[1:]]
        section.tables.append(ComparedTable(explaining, rest, LEAST_NAME, rest, 1, alike))
    if any(len(side) > 1 for side in all_sides):
        section.notes.append(_counted(runs, all_sides))
    if len(measures) > MOST_ROWS:
        section.notes.append(f"{len(measures) - MOST_ROWS} more with a smaller ratio, in compare.csv")
    section.notes.append(_repetitions(runs, all_sides))
    has_repetitions = any(len(side) > 1 for side in all_sides)
    section.notes += judged(runs) if has_repetitions else _judged_phases(runs)
    section.definition = (
        "change and ratio: against the first column. Order: rows that differ by the rule"
        f" ({DIFFERS}) first, then by the ratio of the larger to the smaller. Rule: {DIFFERENCE} Intervals of"
        " differences: Welch. Shares differ in points. Rows below 1 % of requests, bytes or time in every run"
        " are left out. A large ratio is no proof of a cause; among many rows a few differ by chance."
    )
    if not has_repetitions:
        section.definition += " n: phases of one name within one run; the interval is over these phases."
    if any(one.results.app.uncounted for one in runs):
        section.definition += f" {AT_LEAST_MEANS}"
    if any(one.emulated for one in runs):
        section.definition += f" {LITTLE}: times and rates of emulated CPUs, not judged."
    return [section]


def _judged_phases(runs: Runs) -> list[str]:
    """Of single runs: which means over phases of one name differ by the rule."""
    notes = []
    first = runs[0]
    for name in union([[row.name for row in one.results.phases or []] for one in runs]):
        a = _workload_mb_s(first, name)
        for one in runs[1:]:
            b = _workload_mb_s(one, name)
            if a is None or b is None or (verdict := differ(a, b)) is None:
                continue
            text = (
                f"{name}: workload MB/s {units.mean(a)} in {first.letter} (n={a.n}), {units.mean(b)}"
                f" in {one.letter} (n={b.n}), ratio {show_ratio(a, b, False)}: "
            )
            if meaningless(first, one):
                notes.append(text + "not judged, CPUs were emulated")
            else:
                notes.append(text + ("they differ" if verdict else "no difference by the rule"))
    return notes or ["no phase has several observations in two runs: no verdict on differences"]


def _workload_mb_s(one: Compared, name: str) -> Mean | None:
    rows = one.results.phases or []
    return next((row.own_mb_s for row in rows if row.name == name), None)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def as_csv(runs: Sequence[Compared]) -> str:
    """All measures of all sides, a line each, in the table's order."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    all_sides = sides(runs)
    first = outcomes(runs)
    for measure in [*first, *by_weight(causes(runs), runs, all_sides)]:
        for side in all_sides:
            d = difference(measure, runs, all_sides[0], side)
            mean, is_first = d.other, side is all_sides[0]
            apart, ratio = (None, None) if is_first else (d.interval, d.ratio_interval)
            lossy = any(mark(runs[i].run, *measure.collectors) for i in side) and measure.collectors
            writer.writerow(
                [
                    measure.name,
                    measure.unit,
                    int(measure in first),
                    letters(side, runs),
                    mean.n if mean else 0,
                    _number(mean.value if mean else None),
                    _number(mean.half_width if mean else None),
                    letters(all_sides[0], runs),
                    _number(d.first.value if d.first else None),
                    "" if is_first else _number(d.value),
                    _number(apart.low if apart else None),
                    _number(apart.high if apart else None),
                    "" if is_first else _number(d.ratio),
                    _number(ratio.low if ratio else None),
                    _number(ratio.high if ratio else None),
                    "" if is_first else d.verdict,
                    int(bool(lossy)),
                    int(measure.is_bound(side)),
                ]
            )
    return out.getvalue()


SECTIONS = (CompareSpec("differences", "Differences", 200, build_differences, essential=True),)
