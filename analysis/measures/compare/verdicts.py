# SPDX-License-Identifier: BSD-2-Clause
"""Verdicts: whether the other side of a comparison is better or worse than the first, figure by figure.

A figure is better or worse only if two tests agree: the rule (bryant2002), and Welch's test (welch) after
Holm's correction (holm1979). RULE defines every verdict, OVERALL_RULE the exit status of GATE=1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.measures.common.statistics import LEAST_DIFFERENCE
from analysis.measures.statistics.differences import Difference, compare
from analysis.measures.statistics.holm import holm

BETTER, WORSE = "better", "worse"
SMALL = "small difference"
NOT_SEEN = "no difference seen"
CANNOT_TELL = "cannot tell"
NO_WORSE = "no worse"
SIGNIFICANT = 0.05
MARGIN_PCT = 100 * LEAST_DIFFERENCE
MOST_SEEN_PCT = 100.0  # runs that could not even have seen a doubling are too few
MOST_CAUSES = 3
MOST_VALUE = 1e150  # squares of larger numbers, which nobody measured, have no room in a float
OVERALL_RULE = (
    f"Overall: {WORSE}, if a headline figure is {WORSE}; {NO_WORSE}, if every headline figure is {BETTER}, or"
    f" has runs that could have seen {MARGIN_PCT:.0f} % and a 95 % interval of the ratio that excludes"
    f" {MARGIN_PCT:.0f} % for the worse; else {CANNOT_TELL}. A headline figure is the workload's first"
    " metric; without metrics, the workload's time."
)
RULE = (
    f"{BETTER}, {WORSE}: the means differ by the rule (95 % intervals apart, at least {MARGIN_PCT:.0f} %),"
    f" and p < {SIGNIFICANT}. small: p < {SIGNIFICANT}, and less than {MARGIN_PCT:.0f} % apart. none seen:"
    f" neither. {CANNOT_TELL}: a single run, runs that could not see {MOST_SEEN_PCT:.0f} %, the rule and p"
    " disagree, or a figure that is not judged. p: Welch's test after Holm's correction, over all headline"
    " figures, and over all other figures. sees: the least difference that so many runs find in 80 % of such"
    f" comparisons. ratio: over the first side, with Fieller's interval. {OVERALL_RULE}"
)


@dataclass(frozen=True)
class Figure:
    """One figure of two sides, a value for each run. kind: metric, phase, outcome or cause.

    better: higher, lower, or empty where neither is. untold: why the figure gets no verdict.
    """

    name: str
    unit: str
    kind: str
    better: str
    is_headline: bool
    first: Sequence[float]
    other: Sequence[float]
    untold: str = ""


@dataclass(frozen=True)
class Pair:
    """The first side and another one, in one configuration on one machine.

    first, other: names of the sides. where: the configuration, empty where there is only one.
    """

    first: str
    other: str
    where: str
    figures: Sequence[Figure]
    causes: Sequence[Figure] = ()


@dataclass(frozen=True)
class Cause:
    """A possible cause that differs between two sides. differs: by the rule; None: a single run."""

    figure: Figure
    difference: Difference
    differs: bool | None


@dataclass(frozen=True)
class Verdict:
    """The verdict on one figure. p: Welch's after Holm's correction. why: the reason, in words."""

    pair: Pair
    figure: Figure
    word: str
    why: str
    difference: Difference | None
    p: float | None = None
    causes: Sequence[Cause] = ()  # of a worse figure: what differs most beside it

    @property
    def is_no_worse(self) -> bool:
        """Whether the figure is shown to be no worse; see OVERALL_RULE."""
        if self.word == BETTER:
            return True
        if self.word not in (NOT_SEEN, SMALL) or self.difference is None:
            return False
        interval, seen = self.difference.ratio_interval, _seen_pct(self.difference)
        if _is_constant(self.difference) and self.difference.first.value == self.difference.other.value:
            return True
        if interval is None or seen is None or seen > MARGIN_PCT:
            return False
        least, most = 1 - LEAST_DIFFERENCE, 1 + LEAST_DIFFERENCE
        return interval.high < most if self.figure.better == "lower" else interval.low > least


@dataclass(frozen=True)
class Verdicts:
    """All verdicts of a comparison, headline figures first, and the overall one with its reason."""

    verdicts: Sequence[Verdict]
    overall: str
    why: str


def judge(pairs: Sequence[Pair]) -> Verdicts:
    """Verdicts on all figures of all pairs, and overall."""
    found = [(pair, figure, _difference(figure)) for pair in pairs for figure in pair.figures]
    found.sort(key=lambda one: not one[1].is_headline)  # stable: else in the given order
    headlines = sum(figure.is_headline for _, figure, _ in found)
    ps = [_p(difference) for *_, difference in found]
    # two families: many other figures do not weaken the test of the headlines
    ps = holm(ps[:headlines]) + holm(ps[headlines:])
    verdicts = []
    for (pair, figure, difference), p in zip(found, ps, strict=True):
        word, why = _word(figure, difference, p)
        verdicts.append(Verdict(pair, figure, word, why, difference, p))
    beside = {id(one.pair): _causes(one.pair) for one in verdicts if one.word == WORSE}
    verdicts = [replace(one, causes=beside[id(one.pair)]) if one.word == WORSE else one for one in verdicts]
    return Verdicts(verdicts, *_overall(verdicts[:headlines]))


def _difference(figure: Figure) -> Difference | None:
    """The comparison of both sides' known values; None: a side has none, or the figure is not judged."""
    if figure.untold:
        return None
    return compare(_finite(figure.first), _finite(figure.other))


def _finite(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values if abs(value) < MOST_VALUE]  # NaN is not


def _is_constant(difference: Difference) -> bool:
    """Whether no value varies within its side, as counts may."""
    return difference.first.half_width == difference.other.half_width == 0


def _p(difference: Difference | None) -> float | None:
    """Welch's p before any correction. Sides without spread are either equal (1) or different (0)."""
    if difference is None or difference.rule is None:
        return None
    if _is_constant(difference):
        return float(difference.first.value == difference.other.value)
    return difference.welch_p


def _seen_pct(difference: Difference) -> float | None:
    """The smallest difference these runs see, in percent of the first mean; None: not known."""
    if difference.first.value and _is_constant(difference):
        return 0.0
    return difference.seen_pct


def apart_pct(difference: Difference) -> float | None:
    """Difference of the means in percent of the first; None: the first is 0."""
    first, other = difference.first.value, difference.other.value
    return 100 * (other - first) / abs(first) if first else None


def runs_of(difference: Difference) -> str:
    """How many runs both sides have: "5 runs", "3 and 5 runs"."""
    a, b = difference.first.n, difference.other.n
    return f"{a} runs" if a == b else f"{a} and {b} runs"


def percent(value: float) -> str:
    """A percentage of two digits or so: 0.4, 7.2, 35, 1,200."""
    return f"{value:.1f}" if abs(value) < 10 else f"{value:,.0f}"


def _word(figure: Figure, difference: Difference | None, p: float | None) -> tuple[str, str]:
    """The verdict on one figure, and its reason."""
    if figure.untold:
        return CANNOT_TELL, figure.untold
    if difference is None:
        lacking = "other" if _finite(figure.first) else "first"
        return CANNOT_TELL, f"not measured on the {lacking} side"
    if difference.rule is None or p is None:
        return CANNOT_TELL, "single observation"
    if figure.better not in ("higher", "lower"):
        return CANNOT_TELL, "neither direction is stated as better"
    apart, seen = apart_pct(difference), _seen_pct(difference)
    is_worse = (difference.other.value > difference.first.value) == (figure.better == "lower")
    direction = WORSE if is_worse else BETTER
    significant = p < SIGNIFICANT
    if difference.rule and significant:
        return direction, f"{direction} by {_by(apart)}"
    if difference.rule:
        return CANNOT_TELL, f"{direction} by {_by(apart)} by the rule, but p is {p:.2f}"
    if significant:
        if apart is not None and abs(apart) < MARGIN_PCT:
            return SMALL, f"{direction} by {_by(apart)}"
        return CANNOT_TELL, f"{direction} by {_by(apart)}, p is {p:.2g}, but the intervals overlap"
    if difference.first.value == difference.other.value and _is_constant(difference):
        return NOT_SEEN, "all runs are equal"
    if seen is None:
        return CANNOT_TELL, "the first mean is 0"
    could = f"{runs_of(difference)} could have seen >= {percent(seen)} %"
    if seen > MOST_SEEN_PCT:
        return CANNOT_TELL, f"too few runs: {could}"
    return NOT_SEEN, could


def _by(apart: float | None) -> str:
    return "a first mean of 0" if apart is None else f"{percent(abs(apart))} %"


def _causes(pair: Pair) -> list[Cause]:
    """The causes that differ most: those by the rule first, then by the ratio of larger to smaller."""
    found = []
    for figure in pair.causes:
        difference = _difference(figure)
        apart = None if difference is None else apart_pct(difference)
        if difference is None or (apart is not None and abs(apart) < MARGIN_PCT):
            continue
        if difference.first.value != difference.other.value:
            found.append(Cause(figure, difference, difference.rule))
    found.sort(key=lambda cause: (not cause.differs, -_weight(cause.difference)))
    first_of_subject: dict[str, Cause] = {}
    for cause in found:
        first_of_subject.setdefault(_subject(cause.figure.name), cause)
    return list(first_of_subject.values())[:MOST_CAUSES]


def _subject(name: str) -> str:
    """What a cause is of: "disk write" of both "disk write: bytes" and "disk write, data: requests"."""
    return re.split(r"[:,]| of | p\d", name)[0]


def _weight(difference: Difference) -> float:
    """The larger mean over the smaller."""
    low, high = sorted((abs(difference.first.value), abs(difference.other.value)))
    return high / low if low else float("inf")


def _overall(headlines: Sequence[Verdict]) -> tuple[str, str]:
    """The verdict on the whole comparison, and its reason."""
    if not headlines:
        return CANNOT_TELL, "no headline figure was measured on both sides"
    worse = [one for one in headlines if one.word == WORSE]
    if worse:
        return WORSE, _named(worse, len(headlines))
    untold = [one for one in headlines if not one.is_no_worse]
    if untold:
        return CANNOT_TELL, _named(untold, len(headlines)) + _needed(untold)
    few = f"all {len(headlines)} headline figures are" if len(headlines) > 1 else "the headline figure is"
    return NO_WORSE, f"{few} better, or less than {MARGIN_PCT:.0f} % worse"


def _named(verdicts: Sequence[Verdict], of: int) -> str:
    """The first of these headline figures with its reason, and how many there are."""
    one = verdicts[0]
    where = f" ({one.pair.where})" if one.pair.where else ""
    text = f"{one.figure.name}{where}, {one.pair.other} against {one.pair.first}: {one.why}"
    return text if of == 1 else f"{len(verdicts)} of {of} headline figures; {text}"


def _needed(untold: Sequence[Verdict]) -> str:
    """How many runs a side would see MARGIN_PCT, if these figures have too few for that; else nothing."""
    known = [(one.difference, one.difference.seen_pct) for one in untold if one.difference is not None]
    wanted = [
        min(difference.first.n, difference.other.n) * (seen / MARGIN_PCT) ** 2
        for difference, seen in known
        if seen is not None and seen > MARGIN_PCT
    ]
    return f"; about {math.ceil(max(wanted)):,} runs a side would see {MARGIN_PCT:.0f} %" if wanted else ""
