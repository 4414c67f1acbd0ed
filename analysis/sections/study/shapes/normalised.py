# SPDX-License-Identifier: BSD-2-Clause
"""Relative to the best file system, each with its best option; and each option relative to that (gus2011)."""

from __future__ import annotations

from analysis.measures.study.cells import Cells, Row, relative
from analysis.measures.study.published import Needs
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section, Table
from analysis.sections.study.cell_text import Reasons, finish, here, row_name, share_text
from analysis.sections.study.shape import Shape

DEFINITION = (
    "of best: mean / best mean of the row (best / mean where less is better), each file system with the"
    " option that gave it the best mean. Below, each file system by option, relative to its own best. A"
    " best of several options is higher than a typical one by chance alone: the intervals are those of"
    " single options. paper: relative to the best there, or the place that it states."
)


def build(table: Cells, _: StudyResults) -> Section:
    """The section of a study's table."""
    return make_section(table)


def make_section(table: Cells) -> Section:
    """Two tables: file systems against the best one; options against each file system's best."""
    reasons = Reasons()
    axis = table.spec.axis
    lines = [line for row in table.rows for line in _row_lines(table, row, reasons)]
    section = Section(tables=[Table(["<", "<", *table.subjects], lines, least_left=16)])
    options = list(
        dict.fromkeys(
            one.option
            for row in table.rows
            for subject in table.subjects
            for one in table.cell(row, subject).options
        )
    )
    if axis and len(options) > 1:
        section.tables.append(_option_table(table, axis, options))
    return finish(section, table, reasons, DEFINITION)


def _row_lines(table: Cells, row: Row, reasons: Reasons) -> list[list[str]]:
    both = [relative(table, row, subject) for subject in table.subjects]
    cells = [table.cell(row, subject) for subject in table.subjects]
    shown = [
        reasons.mark(cell.why) if cell.measured is None else share_text(ours)
        for cell, (ours, _) in zip(cells, both, strict=True)
    ]
    lines = [[row.name, "of best", *shown]]
    lines.append(["", row_name(row).removeprefix(row.name).lstrip(", ") or "here", *(
        here(table, row, subject, reasons) for subject in table.subjects
    )])  # fmt: skip
    if table.spec.axis:
        lines.append(["", f"best {table.spec.axis}", *(
            cell.measured.option if cell.measured is not None else "-" for cell in cells
        )])  # fmt: skip
    if any(cell.published is not None for cell in cells):
        lines.append(["", "paper", *(cell.published.text if cell.published else "-" for cell in cells)])
    return lines


def _option_table(table: Cells, axis: str, options: list[str]) -> Table:
    lines = []
    for row in table.rows:
        for subject in table.subjects:
            measured = table.cell(row, subject).options
            if not measured:
                continue
            best = measured[0].mean.value
            by_option = {one.option: one.mean.value for one in measured}
            shares = [
                (value / best if row.better == "higher" else best / value)
                if (value := by_option.get(option)) and best
                else None
                for option in options
            ]
            lines.append([row.name, subject, *(share_text(share) for share in shares)])
    return Table(["<", f"<of its best {axis}", *options], lines, least_left=16)


SHAPE = Shape("normalised", 300, build, Needs(keys=("axis",)))
