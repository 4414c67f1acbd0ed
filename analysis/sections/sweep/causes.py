# SPDX-License-Identifier: BSD-2-Clause
"""What the runs show beside the headline: the bytes, seeks, latencies and locks that differ most."""

from __future__ import annotations

from analysis.measures.sweep.causes import SURE, Causes, compare_causes
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.ranking import Ranking
from analysis.render.document import Section, Table
from analysis.rundir.sweep_dir import Configuration
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec, defined_once

MOST_ROWS = 16
MOST_COLUMNS = 6
NAME_WIDTH = 18

TITLE = "Beside the results"
DEFINITION = (
    "mean over the runs, and its ratio to the best configuration by the headline; !: they differ by"
    " the rule. The first row is the headline. Rows that differ come first, then by ratio. -: no run"
    " has it, or in every run it is below 1 % of its whole; n=k: only k runs have it. A large ratio"
    " is no proof of a cause. *: runs lost events."
)


def build_causes(data: SweepData) -> list[Section]:
    """A section a group of traced runs."""
    sections = [_section(data, group) for group in data.groups if group.traced]
    return defined_once(sections, DEFINITION, "no traced run is done: TRACING=on records what differs")


def _section(data: SweepData, group: Group) -> Section:
    name = show.group(data, group)
    section = Section(title=show.title(TITLE, name))
    causes = compare_causes(group)
    if causes is None or not causes.rankings:
        section.absent = (
            "one configuration only" if causes is None else "the runs recorded nothing to compare"
        )
        return section
    section.tables.append(_table(group, causes, section))
    section.notes.append(
        f"{causes.sure} of {causes.comparisons} comparisons have p < {SURE:g} after Holm's correction over"
        " all of them"
    )
    if len(causes.rankings) > MOST_ROWS:
        section.notes.append(
            f"{len(causes.rankings) - MOST_ROWS} more with smaller ratios: sweep.csv has them"
        )
    return section


def _table(group: Group, causes: Causes, section: Section) -> Table:
    columns = [row.configuration for row in group.ranking.rows]
    if len(columns) > MOST_COLUMNS:  # the best, and those farthest from it
        columns = [columns[0], *columns[-MOST_COLUMNS + 1 :]]
        left = len(group.ranking.rows) - MOST_COLUMNS
        section.notes.append(f"the best and the last {MOST_COLUMNS - 1} configurations; {left} are left out")
    heads = ["<beside", show.head(columns[0])]
    for one in columns[1:]:
        heads += [show.head(one), "&ratio"]
    runs = {row.configuration.id: row.n for row in group.ranking.rows}
    rows = [_row(group.ranking, columns, runs)]
    rows += [_row(ranking, columns, runs) for ranking in causes.rankings[:MOST_ROWS]]
    return Table(heads, rows, NAME_WIDTH)


def _row(ranking: Ranking, columns: list[Configuration], runs: dict[str, int]) -> list[str]:
    by_id = {row.configuration.id: row for row in ranking.rows}
    cells = [show.heading(ranking.measure, ranking.unit)]
    for number, configuration in enumerate(columns):
        row = by_id.get(configuration.id)
        text = "-"
        if row is not None:
            bound, lossy = ">=" if row.is_bound else "", "*" if row.lossy else ""
            text = f"{bound}{show.number(row.description.mean, ranking.unit)}{lossy}"
            if row.n < runs.get(configuration.id, 0):
                text += f" n={row.n}"
        cells.append(text)
        if number:
            against = row.against if row is not None else None
            mark = show.DIFFERS if against is not None and against.rule else ""
            cells.append(f"{show.ratio(against.ratio if against else None)}{mark}")
    return cells


SECTIONS = (SweepSpec("causes", TITLE, 400, build_causes),)
