# SPDX-License-Identifier: BSD-2-Clause
"""The answer first: the best configuration, which differ from it, how sure, and what so many runs see."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.measures.common.statistics import LEAST_DIFFERENCE
from analysis.measures.statistics.differences import Difference
from analysis.measures.statistics.samples import MOST_POINTS
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.goal import short_of_goal
from analysis.measures.sweep.ranking import Ranked, Ranking
from analysis.measures.sweep.tracing_pairs import tracing_pairs
from analysis.render.document import Section
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec
from analysis.units import counted

SURE = 0.05
MOST_NAMED = 6  # configurations of a group that are named


def build_answer(data: SweepData) -> list[Section]:
    """One paragraph a group."""
    section = Section()
    if not data.groups:
        section.absent = "no run is done yet"
        return [section]
    for group in data.groups:
        name = show.group(data, group)
        first, *others = _sentences(group)
        section.notes.append(f"{name}: {first}" if name else first)
        section.notes += others
    section.notes += [*_tracing(data), *_goal(data)]
    section.definition = (
        "differ: the 95 % intervals of the means do not overlap and the means are at least"
        f" {100 * LEAST_DIFFERENCE:.0f} % apart (Bryant 2002). p: Welch's test, corrected over all"
        " comparisons of the group (Holm). sees: the smallest difference that so many runs, as spread as"
        " these, find in 80 % of sweeps."
    )
    return [section]


def _sentences(group: Group) -> list[str]:
    ranking = group.ranking
    best = ranking.reference
    if best is None:
        return ["no run has a figure"]
    what = show.heading(ranking.measure, ranking.unit)
    told = show.mean(best, ranking.unit)
    sentences = [
        f"{'best' if ranking.better else 'first'} by {what} ({show.better(ranking.better)}):"
        f" {best.configuration.label}, {told} ({counted(best.n, 'run')})"
    ]
    others = ranking.rows[1:]
    if others and all(row.n == 1 for row in ranking.rows):
        ratios = [f"{row.configuration.label} {_ratio(row)}" for row in others[:MOST_NAMED]]
        more = f", {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        return [*sentences, f"of it: {', '.join(ratios)}{more}; single runs, no verdict", *_lacking(ranking)]
    sentences += [_against(row) for row in others[:MOST_NAMED]]
    if len(others) > MOST_NAMED:
        rest = others[MOST_NAMED:]
        differ = sum(bool(row.against and row.against.rule) for row in rest)
        sentences.append(
            f"{len(rest)} more configurations, of which {differ} differ from the best: see results"
        )
    return [*sentences, *_lacking(ranking)]


def _lacking(ranking: Ranking) -> list[str]:
    names = ", ".join(one.label for one in ranking.lacking[:MOST_NAMED])
    return [f"without this figure: {names}"] if names else []


def _ratio(row: Ranked) -> str:
    return show.ratio(row.against.ratio if row.against else None)


def _against(row: Ranked) -> str:
    label, against = row.configuration.label, row.against
    if against is None:
        return f"{label}: a lower bound, not judged"
    text = f"{label}: {show.ratio(against.ratio)} of it"
    if against.rule is None:
        return f"{text}; single runs, no verdict"
    if against.ratio_interval is not None:
        text += f" {show.interval(against.ratio_interval)}"
    text += f"; {_verdict(row, against)}, p {show.p(row.holm_p)}"
    return text if against.seen_pct is None else f"{text}; sees {show.percent(against.seen_pct)}"


def _verdict(row: Ranked, against: Difference) -> str:
    """The rule's word, and where p says otherwise, why the rule does not follow it."""
    if against.rule:
        return "they differ"
    if row.holm_p is None or row.holm_p >= SURE or against.ratio is None:
        return "not told apart"
    if abs(against.ratio - 1) < LEAST_DIFFERENCE:
        return f"they differ, but by less than the rule's {100 * LEAST_DIFFERENCE:.0f} %"
    return "their intervals overlap: not told apart by the rule"


def _tracing(data: SweepData) -> Sequence[str]:
    costs = [pair.cost_pct for pair in tracing_pairs(data) if pair.cost_pct is not None]
    if not costs:
        return []
    if len(costs) == 1:
        return [f"the figure is {costs[0]:.1f} % worse with tracing: see cost of tracing"]
    low, high = min(costs), max(costs)
    return [f"the figures are {low:.1f} % to {high:.1f} % worse with tracing: see cost of tracing"]


def _goal(data: SweepData) -> Sequence[str]:
    goal = data.sweep.goal_pct
    if goal is None:
        return []
    short = short_of_goal(data, goal)
    if not short:
        return [f"goal: every mean's half-width is at most {goal:g} %"]
    names = "; ".join(f"{one.label} ({why})" for one, why in short[:MOST_POINTS])
    more = f"; and {len(short) - MOST_POINTS} more" if len(short) > MOST_POINTS else ""
    return [f"goal of {goal:g} % not reached by {counted(len(short), 'configuration')}: {names}{more}"]


SECTIONS = (SweepSpec("answer", "Answer", 100, build_answer, essential=True),)
