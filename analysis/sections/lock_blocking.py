# SPDX-License-Identifier: BSD-2-Clause
"""Who waits for whom: edges of the blocking graph, from a waiting call path to a holding one."""

from __future__ import annotations

from analysis import units
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.lock_labels import ESTIMATED, holder_words, name
from analysis.sections.spec import LOCKS, SectionSpec
from analysis.tables.load import Tables

TOP_EDGES = 6


def build_blocking(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One edge of the graph in three lines: lock, waiter, holder."""
    if not results.locks.rows:
        return []
    section = Section()
    waits, holders = results.locks.waits, results.locks.holders
    if waits is None or holders is None or not holders.edges:
        section.absent = run.absent("locks") if waits is None else "no holder was recorded"
        return [section]
    total = waits.total_ns
    body = []
    for e in holders.edges[:TOP_EDGES]:
        row = waits.rows[e.row]
        mark = ESTIMATED if row.sampled_share < 1 else ""
        body.append((mark + units.ns(e.ns), units.percent(e.ns / total), f"{row.type} {name(row)}"))
        body.append(("", "", f"  waiter     {e.waiter}"))
        who = holder_words(e)
        body.append(("", "", f"  holder     {who}{': ' + e.holder if e.holder else ''}"))
    section.tables.append(Table(("waited", "share %", "<lock, waiter, holder"), body))
    shown = sum(e.ns for e in holders.edges[:TOP_EDGES])
    known = sum(e.ns for e in holders.edges)
    section.notes.append(
        f"shown: {units.percent(shown / total)} % of all waiting; holders are known for"
        f" {units.percent(known / total)} %"
    )
    section.definition = (
        "row: one edge of the blocking graph, from the call path of a waiter to the call path of the task"
        " that held the lock when the wait began; waited: the time waited along the edge. Spinlocks,"
        " rwlocks and semaphores do not store their holder. The graph: lock_blocking.svg."
    )
    return [section]


SECTIONS = (
    SectionSpec(
        "lock_blocking", "Who waits for whom", 2400, build_blocking, collectors=("locks",), explains=(LOCKS,)
    ),
)
