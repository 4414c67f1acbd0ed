# SPDX-License-Identifier: BSD-2-Clause
"""Operations by file system, the best marked, the published figure below each measured one (btrfs2007)."""

from __future__ import annotations

from analysis.measures.study.cells import Cells
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section
from analysis.sections.study.cell_text import Reasons, finish, two_lines
from analysis.sections.study.shape import Shape


def build(table: Cells, _: StudyResults) -> Section:
    """One table: operations down, file systems across."""
    reasons = Reasons()
    section = Section(tables=[two_lines(table, table.rows, reasons, "operation")])
    return finish(section, table, reasons)


SHAPE = Shape("operations", 100, build)
