# SPDX-License-Identifier: BSD-2-Clause
"""AIM7's peak by number of CPUs, relative to one file system at one number of CPUs (bryant2002)."""

from __future__ import annotations

from analysis.measures.study.cells import Cells, Row
from analysis.measures.study.published import Needs, Published
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section, Table
from analysis.sections.study.cell_text import Reasons, finish, here, paper, row_name, share_text
from analysis.sections.study.shape import Shape

DEFINITION = (
    "peak: the highest jobs/min of any number of tasks. relative: peak / peak of the baseline, which is"
    " 1.00. Rows are numbers of CPUs; the source's machine had up to 28."
)


def baseline_row(table: Cells) -> Row | None:
    """The baseline's row: the stated one; else the first."""
    named = [row for row in table.rows if row.name == table.spec.baseline_row]
    return named[0] if named else next(iter(table.rows), None)


def build(table: Cells, _: StudyResults) -> Section:
    """One table: CPUs down, file systems across, relative to the baseline."""
    reasons = Reasons()
    base_row = baseline_row(table)
    base = table.spec.baseline or next(iter(table.subjects), "")
    is_known = base_row is not None and base in table.subjects
    base_cell = table.cell(base_row, base) if base_row is not None and is_known else None
    ours = base_cell.measured.mean.value if base_cell and base_cell.measured else None
    lines: list[list[str]] = []
    for row in table.rows:
        cells = [table.cell(row, subject) for subject in table.subjects]
        means = [
            cell.measured.mean.value / ours
            if cell.measured and ours and base_cell and base_cell.measured
            and cell.measured.virtual == base_cell.measured.virtual
            else None
            for cell in cells
        ]  # fmt: skip
        lines.append([row_name(row), "here", *(here(table, row, s, reasons) for s in table.subjects)])
        lines.append(["", "relative", *(share_text(mean) for mean in means)])
        if any(cell.published for cell in cells):
            lines.append(["", "paper", *(paper(table, row, subject) for subject in table.subjects)])
            theirs = base_cell.published if base_cell else None
            shares = [_share(cell.published, theirs) for cell in cells]
            if any(share is not None for share in shares):
                lines.append(["", "relative", *(share_text(share) for share in shares)])
    section = Section(tables=[Table(["<peak", "<", *table.subjects], lines, least_left=20)])
    if ours is None:
        section.notes.append(f"the baseline {base or '(not stated)'} is not measured: no relative figures")
    elif base_row is not None:
        section.notes.append(f"relative to {base}, {base_row.name}")
    return finish(section, table, reasons, DEFINITION)


def _share(published: Published | None, base: Published | None) -> float | None:
    if published is None or base is None or not base.value or published.value is None or published.bound:
        return None
    return published.value / base.value


SHAPE = Shape("peak", 500, build, Needs(keys=("axis", "baseline", "baseline_row")))
