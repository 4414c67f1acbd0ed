# SPDX-License-Identifier: BSD-2-Clause
"""Lost events: the runs whose figures are marked, and what they lost."""

from __future__ import annotations

from analysis.measures.sweep.data import SweepData
from analysis.render.document import Section, Table
from analysis.sections.marks import FROM, MARK
from analysis.sections.sweep.spec import SweepSpec

MOST_ROWS = 40


def build_losses(data: SweepData) -> list[Section]:
    """A row a run with losses; a sentence if there are none."""
    section = Section()
    traced = sum(task.configuration is not None and task.configuration.traced for task in data.done)
    if not traced:
        section.absent = "no traced run is done"
        return [section]
    section.facts.append(("traced runs", f"{traced:,}"))
    section.facts.append(("with marked figures", f"{len(data.losses):,}"))
    rows = [[task, "; ".join(why) or "not stated"] for task, why in data.losses.items()]
    if rows:
        section.tables.append(Table(("<run", "<lost"), rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        section.notes.append(f"{len(rows) - MOST_ROWS} more runs lost events")
    section.definition = (
        f"Figures are marked {MARK} {FROM} by a collector behind them, or where the loss is not known. Each"
        " run's own report states smaller losses."
    )
    return [section]


SECTIONS = (SweepSpec("losses", "Lost events", 900, build_losses),)
