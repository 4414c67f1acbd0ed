# SPDX-License-Identifier: BSD-2-Clause
"""Clip tables to the workload's time: recorded mkfs and fsck requests (WITH=) stay out of its results.

The IO graph, the phases and what is compared with the device's own counters cover all that was recorded.
run.json's clock states run_start_ns and run_end_ns; without them nothing is clipped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from analysis.measures.app.steps import measure_steps
from analysis.measures.common.window import Window
from analysis.measures.results import Results, measure
from analysis.rundir.run import Run
from analysis.tables.load import TABLES, Tables
from analysis.tables.rows import chosen
from analysis.tables.spec import TableSpec

T = TypeVar("T")


def measure_proper(
    run: Run, tables: Tables, whole: Results, everyones_locks: bool = False
) -> tuple[Tables, Results]:
    """The tables and the figures of the run proper. whole: what was measured over all that was recorded."""
    window = proper_window(run, whole.window)
    if window is None:
        return tables, whole
    inside = clip_tables(tables, window)
    found = measure(replace(run, missing=[]), inside, window, everyones_locks)  # the gaps are known already
    steps = []
    if tables.phases is not None:
        steps = measure_steps(tables.phases, tables.block, whole.moves, window.start_ns, window.end_ns)
    apart = None
    if tables.block is not None and inside.block is not None:
        apart = tables.block.rows - inside.block.rows
    return inside, replace(
        found,
        recorded_s=whole.recorded_s,
        phase_rows=whole.phase_rows,
        disk_counters=whole.disk_counters,
        disk_bytes=whole.disk_bytes,
        steps=steps,
        requests_apart=apart,
    )


def proper_window(run: Run, window: Window) -> Window | None:
    """The time of the run proper, None if that is all of the window."""
    start = run.int_("clock", "run_start_ns")
    end = run.int_("clock", "run_end_ns")
    if start is None:
        return None
    # a run that was killed has no end; that of one whose recorder was killed is not the recording's
    end = min(window.end_ns if end is None else end, window.end_ns)
    if not window.start_ns <= start < end:
        return None
    work_start, work_end = max(window.work_start_ns, start), min(window.work_end_ns, end)
    if work_start >= work_end:
        work_start, work_end = start, end
    return Window(start, end, work_start, work_end, window.stated)


def clip_tables(tables: Tables, window: Window) -> Tables:
    """All tables, clipped to the window."""
    for spec in TABLES.values():
        table = tables.get(spec)
        if table is not None:
            tables = tables.put(spec, clip_table(spec, table, window))
    return tables


def clip_table(spec: TableSpec[T], table: T, window: Window) -> T:
    """The table's rows in the window, see RowTime.inside(); all rows of a table that is never clipped."""
    if spec.time is None or not spec.time.is_clipped:
        return table
    return spec.take(table, chosen(spec.time.inside(table, window.start_ns, window.end_ns)))
