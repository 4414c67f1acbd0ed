# SPDX-License-Identifier: BSD-2-Clause
"""The workload's other metrics, the times of its phases, and mkfs, fsck and space, by configuration."""

from __future__ import annotations

import pandas as pd

from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.figure import METRIC, OUTCOME, PHASE
from analysis.measures.sweep.ranking import Ranking
from analysis.render.document import Section, Table
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec, defined_once

MOST_MEASURES = 40
MOST_COLUMNS = 8
NAME_WIDTH = 18

TITLE = "Other figures"
DEFINITION = (
    "mean +- 95 % half-width over the runs; ^: the best mean, where it differs by the rule from the"
    " second; -: no run has the figure; *: runs lost events; >=: a lower bound. PHASE seconds: all"
    " phases of the name together; PHASE MB/s: mean over them, of file data as the workload counts"
    " it."
)


def build_other_figures(data: SweepData) -> list[Section]:
    """A section a group."""
    sections = [_section(data, group) for group in data.groups]
    return defined_once(sections, DEFINITION, "no run is done yet")


def _section(data: SweepData, group: Group) -> Section:
    name = show.group(data, group)
    section = Section(title=show.title(TITLE, name))
    frame = group.frame[group.frame.kind.isin([METRIC, PHASE, OUTCOME])]
    measures = [measure for measure in _different(frame, group.headline) if measure != group.headline]
    if not measures:
        section.absent = "the runs have one figure only"
        return section
    columns = [row.configuration for row in group.ranking.rows] or list(group.configurations)
    if len(columns) > MOST_COLUMNS:
        section.notes.append(f"the best {MOST_COLUMNS} of {len(columns)} configurations; sweep.csv has all")
    columns = columns[:MOST_COLUMNS]
    if len(measures) > MOST_MEASURES:
        section.notes.append(f"{len(measures) - MOST_MEASURES} more figures: sweep.csv has them")
    rankings = [group.rank(measure) for measure in measures[:MOST_MEASURES]]
    section.tables.append(
        Table(
            ["<figure", *(show.head(one) for one in columns)],
            [[show.heading(r.measure, r.unit), *_cells(r, [one.id for one in columns])] for r in rankings],
            NAME_WIDTH,
        )
    )
    return section


def _different(frame: pd.DataFrame, headline: str) -> list[str]:
    """The measures, without those that repeat another under a second name, as some rates of phases do."""
    by_measure = dict(list(frame.groupby("measure", sort=False)))
    seen: dict[tuple[object, ...], str] = {}
    for name in dict.fromkeys([headline, *frame.measure]):
        if name in by_measure:
            own = by_measure[name].sort_values("task")
            seen.setdefault((own.unit.iloc[0], *own.task, *own.value), str(name))
    return list(seen.values())


def _cells(ranking: Ranking, columns: list[str]) -> list[str]:
    texts = {row.configuration.id: show.mean(row, ranking.unit) for row in ranking.rows}
    if ranking.better and len(ranking.rows) > 1:
        first, second = ranking.rows[:2]
        if second.against is not None and second.against.rule:
            texts[first.configuration.id] += "^"
    return [texts.get(column, "-") for column in columns]


SECTIONS = (SweepSpec("other_figures", TITLE, 300, build_other_figures),)
