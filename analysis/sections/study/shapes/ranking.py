# SPDX-License-Identifier: BSD-2-Clause
"""Worst to best with delta1 and delta2, as stepan2005 has them: a block a row, the best named as such."""

from __future__ import annotations

from analysis import units
from analysis.measures.study.cells import Cells, Row, best_published
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section, Table
from analysis.sections.study.cell_text import Reasons, figure, finish, row_name
from analysis.sections.study.shape import Shape

DEFINITION = (
    "delta1 = (best - x) / best, delta2 = (x - best) / x, in percent (stepan2005): how much of the best is"
    " missing, and how much of itself. Rows go from the worst measured mean to the best; deltas of the"
    " means. paper: the published figure with its own deltas."
)


def deltas(value: float, best: float) -> tuple[float | None, float | None]:
    """delta1 and delta2 as shares; None: divided by 0."""
    return (best - value) / best if best else None, (value - best) / value if value else None


def _three(value: float | None, best: float | None, text: str, is_best: bool) -> list[str]:
    """The figure and its deltas, or "best"."""
    if value is None or best is None:
        return [text, "", ""]
    if is_best:
        return [text, "best", ""]
    return [text, *(_percent(delta) for delta in deltas(value, best))]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:,.1f}"


def row_lines(table: Cells, row: Row, reasons: Reasons) -> list[list[str]]:
    """Subjects from worst to best; those without measured figure first."""
    ranked = table.ranked(row)
    top = table.cell(row, ranked[-1]).measured if ranked else None
    top_published = best_published(table, row)
    best_value = table.cell(row, top_published).published if top_published else None
    lines: list[list[str]] = []
    nothing: dict[str, list[str]] = {}  # subjects without any figure, by reason: one line
    for subject in table.subjects:
        cell = table.cell(row, subject)
        if cell.measured is None and cell.published is None:
            nothing.setdefault(cell.why, []).append(subject)
    for why, subjects in nothing.items():
        lines.append(["" if lines else row_name(row), ", ".join(subjects), reasons.mark(why), *[""] * 5])
    empty = {subject for subjects in nothing.values() for subject in subjects}
    for subject in [*(s for s in table.subjects if s not in ranked and s not in empty), *ranked]:
        cell = table.cell(row, subject)
        measured, published = cell.measured, cell.published
        ours = measured.mean.value if measured is not None and subject in ranked else None
        shown = figure(measured, row.unit) if measured is not None else reasons.mark(cell.why)
        theirs = published.value if published is not None and not published.bound else None
        text = published.text if published is not None and theirs is None else "-" if theirs is None else ""
        lines.append(
            [
                "" if lines else row_name(row),
                subject,
                *_three(ours, top.mean.value if top else None, shown, bool(ranked) and subject == ranked[-1]),
                *_three(
                    theirs,
                    best_value.value if best_value else None,
                    text or units.rate(theirs),
                    subject == top_published,
                ),
            ]
        )
    return lines


def build(table: Cells, _: StudyResults) -> Section:
    """One table with a block a row."""
    reasons = Reasons()
    lines = [line for row in table.rows for line in row_lines(table, row, reasons)]
    heads = ["<", "<", "here", "&delta1\n%", "&delta2\n%", "paper", "&delta1\n%", "&delta2\n%"]
    section = Section(tables=[Table(heads, lines, least_left=16)])
    return finish(section, table, reasons, DEFINITION)


SHAPE = Shape("ranking", 200, build)
