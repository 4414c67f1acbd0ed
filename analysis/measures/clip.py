# SPDX-License-Identifier: BSD-2-Clause
"""The run proper: where mkfs or fsck were recorded too (WITH=), the figures are of the time between them.

The IO graph, the phases and what is compared with the device's own counters are of everything that was
recorded. run.json's clock says when the run proper began and ended; without that all is the run proper.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from analysis.measures.app.steps import measure_steps
from analysis.measures.common.window import Window
from analysis.measures.results import Results, measure
from analysis.rundir.run import Run
from analysis.tables.block import Block
from analysis.tables.load import Tables
from analysis.tables.phase import Phases
from analysis.tables.rows import Rows, take
from analysis.tables.store import I64, Categorical


def measure_proper(
    run: Run, tables: Tables, whole: Results, everyones_locks: bool = False
) -> tuple[Tables, Results]:
    """The tables and the figures of the run proper. whole: what was measured over all that was recorded."""
    window = proper_window(run, whole.window)
    if window is None:
        return tables, whole
    inside = proper_tables(tables, window)
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


def proper_tables(tables: Tables, window: Window) -> Tables:
    """The rows of the run proper: requests by completion, what was summed up in bins by the bin's middle."""

    def rows(t_ns: I64) -> Rows:
        return _rows(t_ns, window)

    waits, samples = tables.lock_wait, tables.lock_sample
    if waits is not None:
        waits = take(waits, rows(waits.bin_ns + waits.bin_length_ns // 2))
    if samples is not None:
        samples = take(samples, rows(samples.bin_ns + samples.bin_length_ns // 2))
    hold, cpu, counter, plug = tables.hold, tables.cpu_sample, tables.counter, tables.plug
    return replace(
        tables,
        phases=_inside(tables.phases, window) if tables.phases is not None else None,
        block=proper_block(tables.block, window) if tables.block is not None else None,
        lock_wait=waits,
        lock_sample=samples,
        hold=take(hold, rows(hold.bin_ns + hold.bin_length_ns // 2)) if hold is not None else None,
        cpu_sample=take(cpu, rows(cpu.t_ns)) if cpu is not None else None,
        counter=take(counter, rows(counter.t_ns)) if counter is not None else None,
        plug=take(plug, rows(plug.unplug_ns)) if plug is not None else None,
    )


def proper_block(block: Block, window: Window) -> Block:
    """The requests of the run proper."""
    at, read = _rows(block.complete_ns, window), block.read

    def part(name: str) -> Any:
        column = read(name)
        return None if column is None else column[at]

    def words(name: str) -> Categorical | None:
        column = block.read_categorical(name)
        return None if column is None else Categorical(column.codes[at], column.labels)

    return replace(take(block, at), read=part, kept={}, read_categorical=words)


def _rows(t_ns: I64, window: Window) -> Rows:
    at = np.flatnonzero((t_ns >= window.start_ns) & (t_ns < window.end_ns))
    if at.size and int(at[-1]) - int(at[0]) + 1 == at.size:
        return slice(int(at[0]), int(at[-1]) + 1)  # no copy of a table of millions
    return at


def _inside(phases: Phases, window: Window) -> Phases:
    """The phases that overlap the window."""
    at = np.flatnonzero((phases.end_ns > window.start_ns) & (phases.start_ns < window.end_ns))
    return replace(take(phases, at), name=[phases.name[i] for i in at])
