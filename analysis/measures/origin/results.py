# SPDX-License-Identifier: BSD-2-Clause
"""Why requests were sent, what became of the written bytes, and the events behind both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.app.results import AppResults
from analysis.measures.block.view import Views
from analysis.measures.common.timeline import Timeline
from analysis.measures.common.window import Window
from analysis.measures.origin.events import EventResults, measure_events, own_devices
from analysis.measures.origin.passed_on import passed_on
from analysis.measures.origin.requests import Whys, measure_whys
from analysis.measures.origin.written import Written, measure_written
from analysis.rundir.run import Run
from analysis.tables import dirtied, event, function, thread, wake
from analysis.tables.block import Block
from analysis.tables.load import Tables
from analysis.tables.store import I64


@dataclass(frozen=True)
class OriginResults:
    """One field per subject. None: an older run, or the collector recorded nothing."""

    whys: Whys | None
    written: Written | None
    events: EventResults | None


def measure_origins(
    run: Run, tables: Tables, views: Views | None, app: AppResults, window: Window, timeline: Timeline
) -> OriginResults:
    """Measure a run's requests by cause, and its events. An older run has none of these."""
    events = tables.get(event.TABLE)
    of_events = measure_events(events, timeline, own_devices(run)) if events is not None else None
    if views is None:
        return OriginResults(None, None, of_events)
    window_ns = window.start_ns, window.end_ns
    functions = tables.get(function.TABLE) or {}
    whys = measure_whys(
        views.disks if views.has_disks else views.top,
        events,
        tables.phases,
        functions,
        window_ns,
        lambda block: _passed_on(tables, block, functions),
    )
    if whys is None:
        return OriginResults(None, None, of_events)
    written = measure_written(
        views.top.block,
        None if app.absent else tables.call,
        tables.get(dirtied.TABLE),
        tables.phases,
        functions,
        window_ns,
        _deleted(tables.get(thread.TABLE)),
    )
    return OriginResults(whys, written, of_events)


def _passed_on(tables: Tables, block: Block, functions: Mapping[int, str]) -> I64:
    """Rows of the block table; none without the tables of threads and wake-ups."""
    wakes, threads = tables.get(wake.TABLE), tables.get(thread.TABLE)
    if wakes is None or threads is None:
        return np.zeros(0, dtype=np.int64)
    return passed_on(wakes, block, functions, threads)


def _deleted(threads: thread.Threads | None) -> int | None:
    """Bytes that the workload's threads had made dirty as their file was cut or removed; None: not known."""
    if threads is None:
        return None
    cancelled = [
        int(size)
        for size, role in zip(threads.cancelled_write_bytes, threads.role, strict=True)
        if role == "workload" and size != thread.MISSING
    ]
    return sum(cancelled) if cancelled else None
