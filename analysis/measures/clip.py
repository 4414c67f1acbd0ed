# SPDX-License-Identifier: BSD-2-Clause
"""Clip tables to the workload's time: recorded mkfs and fsck requests (WITH=) stay out of its results.

The IO graph, the phases and the comparison with the device's own counters cover the whole recording.
run.json's clock states run_start_ns and run_end_ns; without them nothing is clipped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from analysis.measures.app.steps import OutsideWorkload, measure_steps
from analysis.measures.block.view import make_views
from analysis.measures.common.window import Window
from analysis.measures.results import Results, measure
from analysis.rundir.run import Run
from analysis.tables.load import TABLES, Tables
from analysis.tables.rows import chosen
from analysis.tables.spec import TableSpec

T = TypeVar("T")


def measure_clipped(
    run: Run, tables: Tables, whole: Results, everyones_locks: bool = False
) -> tuple[Tables, Results]:
    """Tables and results of the workload's time. whole: the results of the whole recording."""
    window = clip_window(run, whole.window)
    if window is None:
        return tables, whole
    inside = clip_tables(tables, window)
    # `whole` stated the gaps of run.json already
    clipped = measure(replace(run, missing=[]), inside, window, everyones_locks)
    steps = []
    if tables.phases is not None:
        views = make_views(tables.block, tables.top)
        distances = whole.block.seeks.distances if whole.block is not None else None
        steps = measure_steps(tables.phases, views, distances, window.start_ns, window.end_ns)
    requests = None
    if tables.top is not None and inside.top is not None:
        requests = tables.top.rows - inside.top.rows
    return inside, replace(
        clipped,
        recorded_s=whole.recorded_s,
        phases=whole.phases,
        device=replace(clipped.device, counters=whole.device.counters),
        outside=OutsideWorkload(steps, requests),
    )


def clip_window(run: Run, window: Window) -> Window | None:
    """The time to clip to; None: all of the window is the workload's time."""
    start = run.int_("clock", "run_start_ns")
    end = run.int_("clock", "run_end_ns")
    if start is None:
        return None
    # a killed run states no end; if the recorder was killed, the run's end lies after the recording's
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
