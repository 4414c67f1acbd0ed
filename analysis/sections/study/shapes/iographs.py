# SPDX-License-Identifier: BSD-2-Clause
"""IO graphs side by side on the same axes (btrfs2007): which runs the picture shows."""

from __future__ import annotations

from analysis import units
from analysis.measures.study.cells import Cells
from analysis.measures.study.published import Needs
from analysis.measures.study.results import StudyResults
from analysis.measures.study.shown_runs import shown_runs
from analysis.render.document import Section, Table
from analysis.sections.study.shape import Shape

DEFINITION = (
    "IO graphs: of each file system the run whose headline figure is the median (of an even number the"
    " lower one), with disk offset, throughput, rates and latency over time, all on the same axes. Their"
    " numbers are in the runs' own reports."
)


def build(table: Cells, results: StudyResults) -> Section:
    """The list of runs; the picture is a file of its own."""
    section = Section(title=table.spec.title, definition=DEFINITION)
    shown = shown_runs(table.spec, results.sweep, results.figures, results.machine)
    if not shown:
        section.absent = "no traced run of this part is done yet"
        return section
    rows = [
        [
            one.subject + (" v" if one.virtual else ""),
            f"runs/{one.task}",
            f"{units.rate(one.value)} {one.unit}",
            str(one.of),
        ]
        for one in shown
    ]
    section.tables.append(Table(["<file system", "<run", "headline", "of runs"], rows, least_left=16))
    if any(one.virtual for one in shown):
        section.notes.append("v: run in a virtual machine; these times never compare with those outside")
    if table.spec.note:
        section.notes.append(table.spec.note)
    return section


SHAPE = Shape("iographs", 700, build, Needs())
