# SPDX-License-Identifier: BSD-2-Clause
"""iomatrix's cells of each file system: KiB/s by operation, file size and record size, means over the runs.

Of each file system the configuration with the best overall figure of the first operation is taken, as the
source's matrices are of its best run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.errors import ReportError, TableError
from analysis.measures.app.iomatrix import measure_matrix
from analysis.measures.common.statistics import Mean, mean_ci
from analysis.measures.study.cells import Cells, Measured
from analysis.rundir.folder import make_inside
from analysis.rundir.run import open_run
from analysis.rundir.sweep_dir import RUNS, Sweep
from analysis.tables.load import load_table
from analysis.tables.result import TABLE as RESULT

Place = tuple[str, int, int]  # operation, file size and record size in KiB
OVERALL = "overall"


@dataclass(frozen=True)
class SubjectMatrix:
    """One file system's matrix. option: its configuration."""

    subject: str
    option: str
    cells: Mapping[Place, Mean]
    virtual: bool = False  # run in a virtual machine


def measure_matrices(table: Cells, sweep: Sweep) -> list[SubjectMatrix]:
    """The matrices in the table's order; file systems without runs, or without cells, are left out."""
    matrices = []
    for subject in table.subjects:
        measured = _best(table, subject)
        cells = _cells(sweep, measured) if measured is not None else {}
        if measured is not None and cells:
            means = {place: mean for place, of in cells.items() if (mean := mean_ci(of)) is not None}
            matrices.append(SubjectMatrix(subject, measured.option or subject, means, measured.virtual))
    return matrices


def _best(table: Cells, subject: str) -> Measured | None:
    """The configuration of the first row that is an overall figure; else of the first row that has any."""
    rows = sorted(table.rows, key=lambda row: not row.name.endswith(OVERALL))
    return next((one for row in rows if (one := table.cell(row, subject).measured) is not None), None)


def _cells(sweep: Sweep, measured: Measured) -> dict[Place, list[float]]:
    """KiB/s of each cell, one value a run."""
    paths = {task.task: task.path.name for task in sweep.tasks}
    cells: dict[Place, list[float]] = {}
    for task in measured.tasks:
        try:
            run = open_run(sweep.open_path / RUNS / paths.get(task, task))
            make_inside(run.open_path, "tables")
            matrix = measure_matrix(load_table(run, RESULT), None)
        except (ReportError, TableError, OSError):
            continue  # the figures of this run are from the cache; its directory is gone
        for cell in matrix.cells if matrix is not None else []:
            place = cell.operation, cell.file_kib, cell.record_kib
            cells.setdefault(place, []).append(cell.kib_per_s)
    return cells
