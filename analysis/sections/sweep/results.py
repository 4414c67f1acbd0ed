# SPDX-License-Identifier: BSD-2-Clause
"""Results by configuration: mean, median, ratio to the best, verdict, and all values of few runs."""

from __future__ import annotations

from analysis.measures.common.statistics import DIFFERENCE
from analysis.measures.statistics.differences import SEEN
from analysis.measures.statistics.samples import FENCE, LEAST_BOOTSTRAP, MOST_POINTS
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.ranking import Ranked, Ranking
from analysis.render.document import Section, Table
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec, defined_once

BEST = "best"
NAME_WIDTH = 16
DEFINITION = (
    "n: runs; mean +- 95 % half-width (Student t); ratio: to the first"
    f" row, with its 95 % interval (Fieller). differ: {DIFFERENCE} p: Welch's test, corrected over this"
    f" table (Holm). {SEEN}. The best is chosen by the same runs: of equal configurations it looks too"
    f" good. Values: all, up to {MOST_POINTS} runs; 95 % bootstrap interval of the mean from"
    f" {LEAST_BOOTSTRAP} runs on."
)


def build_results(data: SweepData) -> list[Section]:
    """A section a group."""
    sections = [_section(data, group) for group in data.groups]
    return defined_once(sections, DEFINITION, "no run is done yet")


def _section(data: SweepData, group: Group) -> Section:
    ranking = group.ranking
    name = show.group(data, group)
    heading = show.heading(ranking.measure, ranking.unit)
    section = Section(title=show.title(f"Results: {heading}", name))
    if not ranking.rows:
        section.absent = "no run has a figure"
        return section
    section.tables = [results_table(ranking)]
    if any(row.n > 1 for row in ranking.rows):
        section.tables.append(_values_table(ranking))
    section.notes.append(show.better(ranking.better))
    section.notes += _outliers(ranking)
    if ranking.lacking:
        section.notes.append("without this figure: " + ", ".join(one.label for one in ranking.lacking))
    return section


def results_table(ranking: Ranking) -> Table:
    """The configurations, best first; single runs have neither intervals nor verdicts."""
    unit = ranking.unit
    rows = []
    if all(row.n == 1 for row in ranking.rows):
        for row in ranking.rows:
            rows.append([row.configuration.label, "1", show.mean(row, unit), _against(row, ranking)[0]])
        return Table(("<configuration", "n", "one run", "ratio"), rows, NAME_WIDTH)
    heads = (
        "<configuration",
        "n",
        "mean +-95 %",
        "median",
        "ratio",
        "&95 % interval",
        "differ",
        "&p",
        "sees",
    )
    for row in ranking.rows:
        about = row.description
        first = [row.configuration.label, str(row.n), show.mean(row, unit), show.number(about.median, unit)]
        rows.append([*first, *_against(row, ranking)])
    return Table(heads, rows, NAME_WIDTH)


def _against(row: Ranked, ranking: Ranking) -> list[str]:
    if row is ranking.reference:
        return [BEST if ranking.better else "1", "", "", "", ""]
    against = row.against
    if against is None:
        return ["-", "-", "not judged", "-", "-"]
    verdict = {True: "yes", False: "no", None: "-"}[against.rule]
    return [
        show.ratio(against.ratio),
        show.interval(against.ratio_interval),
        verdict,
        show.p(row.holm_p),
        show.percent(against.seen_pct),
    ]


def _values_table(ranking: Ranking) -> Table:
    """All values of few runs; of many, the least and the most, and the bootstrap interval."""
    unit = ranking.unit
    rows = []
    for row in ranking.rows:
        about = row.description
        if about.points:
            text = "; ".join(show.number(value, unit) for value in row.values)
        else:
            text = f"{show.number(min(row.values), unit)} to {show.number(max(row.values), unit)}"
        if about.bootstrap is not None:
            low, high = show.number(about.bootstrap.low, unit), show.number(about.bootstrap.high, unit)
            text += f", bootstrap [{low}; {high}]"
        rows.append([row.configuration.label, text])
    return Table(("<configuration", "<values, by repetition"), rows, NAME_WIDTH)


def _outliers(ranking: Ranking) -> list[str]:
    notes = []
    for row in ranking.rows:
        for index in row.description.outliers:
            value = show.number(row.values[index], ranking.unit)
            notes.append(
                f"{row.configuration.label}: {value} in {row.tasks[index]} is more than {FENCE:g}"
                " interquartile ranges from the quartiles; kept in every figure"
            )
    return notes


SECTIONS = (SweepSpec("results", "Results", 200, build_results, essential=True),)
