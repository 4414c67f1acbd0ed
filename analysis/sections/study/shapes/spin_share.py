# SPDX-License-Identifier: BSD-2-Clause
"""Share of all CPU cycles spent spinning, by lock and file system: table 1 of bryant2002."""

from __future__ import annotations

from analysis.measures.study.cells import Cells
from analysis.measures.study.published import Needs
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section
from analysis.sections.study.cell_text import Reasons, finish, two_lines
from analysis.sections.study.shape import Shape

PREFIX = "spinning on "
DEFINITION = (
    "spin share: time spinning on the lock / (CPUs x recorded time), of the workload's tasks and the"
    " file system's, in"
    " percent (Bryant 2002, table 1). [x]: least of the row. Locks of today that spin for 0.1 % or more"
    " have rows of their own; locks of 2.4 that are gone keep theirs. The lock tracepoints show a wait;"
    " where a kernel spins without one, samples of the CPUs estimate it in each run's report."
)


def build(table: Cells, _: StudyResults) -> Section:
    """One table: locks down, file systems across."""
    reasons = Reasons()
    section = Section(tables=[two_lines(table, table.rows, reasons, "lock")])
    return finish(section, table, reasons, DEFINITION)


SHAPE = Shape("spin_share", 400, build, Needs(others=PREFIX, better="lower"))
