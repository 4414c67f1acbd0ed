# SPDX-License-Identifier: BSD-2-Clause
"""iomatrix's matrix in Workload results: a table an operation, file sizes down, record sizes across."""

from __future__ import annotations

from analysis import units
from analysis.measures.app import iomatrix
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.marks import mark

FILES_SHOWN = 24
RECORDS_SHOWN = 12


def size(kib: int) -> str:
    """4 KiB, 2 MiB, 1 GiB."""
    for unit, factor in (("GiB", 1 << 20), ("MiB", 1 << 10)):
        if kib >= factor and kib % factor == 0:
            return f"{kib // factor:,} {unit}"
    return f"{kib:,} KiB"


def add_matrix(section: Section, run: Run, matrix: iomatrix.Matrix) -> None:
    """Add the tables to the section; marked where block lost rows: they tell the disk's part."""
    lossy = mark(run, "block")
    operations = list(dict.fromkeys(cell.operation for cell in matrix.cells))
    reached = []
    for operation in operations[:8]:
        cells = {(c.file_kib, c.record_kib): c for c in matrix.cells if c.operation == operation}
        files = sorted({file for file, _ in cells})[:FILES_SHOWN]
        records = sorted({record for _, record in cells})[:RECORDS_SHOWN]
        rows = []
        for file in files:
            row_cells = [cells.get((file, record)) for record in records]
            # the mark's place is kept, so that numbers stand below each other
            rows.append(
                [size(file), *(f"{units.rate(c.kib_per_s)}{c.mark or ' '}" if c else "" for c in row_cells)]
            )
        heads = [f"<{operation} {lossy}".rstrip(), *(f"{size(record)} " for record in records)]
        section.tables.append(Table(heads, rows))
        disk = sum(c.mark == iomatrix.DISK for c in cells.values())
        some = sum(c.mark == iomatrix.SOME for c in cells.values())
        reached.append(f"{operation} {disk}+{some}/{len(cells)}")
    repeated = [cell.times for cell in matrix.cells if cell.times > 1]
    if repeated:
        section.notes.append(
            f"{len(repeated):,} of {len(matrix.cells):,} cells were too short for one measurement and"
            f" ran up to {max(repeated):,} times"
        )
    if matrix.seen:
        section.notes.append(f"cells from disk + partly from disk / all: {', '.join(reached)}")
    else:
        section.notes.append("no block table: whether a cell reached the disk is not known")
    section.definition += f" Record size against file size: {iomatrix.DEFINITION}"
