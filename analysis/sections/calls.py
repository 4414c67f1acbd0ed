# SPDX-License-Identifier: BSD-2-Clause
"""File-system calls of the workload: count, bytes, errors and time."""

from __future__ import annotations

from analysis import units
from analysis.measures.app import calls
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables.load import Tables

TOP = 12


def build_calls(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a call and target, most time first."""
    section = Section()
    if results.app.calls is None:
        section.absent = run.absent("calls")
        return [section]
    rows = [
        (
            r.call,
            r.target,
            units.count(r.count),
            units.bytes_(r.bytes),
            units.count(r.errors),
            units.ns(r.total_ns),
            units.ns(r.p50_ns),
            units.ns(r.p99_ns),
            units.ns(r.max_ns),
        )
        for r in results.app.calls[:TOP]
    ]
    if rows:
        section.tables.append(
            Table(("<call", "<on", "count", "bytes", "errors", "total", "p50", "p99", "max"), rows)
        )
        if len(results.app.calls) > TOP:
            section.notes.append(f"{len(results.app.calls) - TOP} more calls, each with less time")
    else:
        section.notes.append("no calls were recorded")
    section.definition = calls.DEFINITION + " target: the file system under test; elsewhere: any other."
    return [section]


SECTIONS = (
    SectionSpec("calls", "File-system calls", 2600, build_calls, collectors=("calls",), explains=(TIME,)),
)
