# SPDX-License-Identifier: BSD-2-Clause
"""Very many files in one directory: seconds by operation; readdir order against inode order (btrfs2007)."""

from __future__ import annotations

from analysis.measures.study.cells import Cells
from analysis.measures.study.published import CORRELATION, Needs
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section
from analysis.sections.study.cell_text import LEGEND, Reasons, finish, two_lines
from analysis.sections.study.shape import Shape

DEFINITION = (
    f"{LEGEND} {CORRELATION}: Spearman's, 1 the same order, 0 none, -1 the reverse: tar and delete go in"
    " readdir order, acp in inode order."
)


def build(table: Cells, _: StudyResults) -> Section:
    """One table: operations down, file systems across; the correlation below."""
    reasons = Reasons()
    rows = sorted(table.rows, key=lambda row: row.name.startswith(CORRELATION))
    section = Section(tables=[two_lines(table, rows, reasons, "operation")])
    return finish(section, table, reasons, DEFINITION)


SHAPE = Shape("million_files", 800, build, Needs(keys=("correlation",)))
