# SPDX-License-Identifier: BSD-2-Clause
"""The seven metrics of iozone's matrix by operation and file system (stepan2005), each of its best option."""

from __future__ import annotations

from itertools import product

from analysis.measures.study.cells import Cells
from analysis.measures.study.published import Needs
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section, Table
from analysis.sections.study.cell_text import Reasons, finish, two_lines
from analysis.sections.study.shape import Shape

OPERATIONS = ("write", "rewrite", "read", "reread", "random write", "random read")
METRICS = ("maximum", "minimum", "total average", "target average", "ora-ta", "specfp-ta", "overall")
ROWS = {
    f"{operation} {metric}": f"{operation}: {metric}" for operation, metric in product(OPERATIONS, METRICS)
}
DEFINITION = (
    "metrics of the cells' KiB/s (stepan2005): maximum and minimum cell; total average of all cells; target"
    " average of records of 1-32 KiB and files of 4 KiB-2 MiB; ora-ta: records 4-16 KiB, files 4 KiB-4 GiB;"
    " specfp-ta: records 1-4 KiB, files 4 KiB-4 GiB; overall: the sum of these six of one run. Each figure"
    " is that of the file system's best option, as in the source, and so each metric may be another"
    " option's. [x]: best mean of the row; ~x: does not differ from it by the rule."
)


def build(table: Cells, _: StudyResults) -> Section:
    """One table of metrics, and which option gave each figure."""
    reasons = Reasons()
    section = Section(tables=[two_lines(table, table.rows, reasons, "metric")])
    section.notes.append(
        "the cells by record size and file size: study-matrix.csv, and the picture of this table"
    )
    options = _options(table)
    if options is not None:
        section.tables.append(options)
    return finish(section, table, reasons, DEFINITION)


def _options(table: Cells) -> Table | None:
    """How often each option was its file system's best; None: no file system has several."""
    counts: dict[tuple[str, str], int] = {}
    several = False
    for row in table.rows:
        for subject in table.subjects:
            cell = table.cell(row, subject)
            several |= len(cell.options) > 1
            if cell.measured is not None and cell.options:
                for one in cell.options:
                    counts.setdefault((subject, one.option), 0)
                counts[subject, cell.measured.option] += 1
    if not several:
        return None
    rows = [[subject, option, f"{count}"] for (subject, option), count in counts.items()]
    return Table(["<file system", "<option", "rows in which it is the best"], rows, least_left=24)


SHAPE = Shape("matrix", 600, build, Needs(rows=ROWS))
