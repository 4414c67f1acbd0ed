# SPDX-License-Identifier: BSD-2-Clause
"""A trace for the Perfetto viewer: threads, requests, events, phases, counters, lock waits, CPU samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from analysis.errors import TableError
from analysis.exporters.format import Exported, Format, Source
from analysis.exporters.perfetto import events as event_tracks
from analysis.exporters.perfetto import requests, samples, series, threads
from analysis.exporters.perfetto.trace_file import TraceFile
from analysis.exporters.readme import write_readme
from analysis.measures.critical_path.intervals import fits
from analysis.measures.critical_path.results import ROWS_MOST
from analysis.measures.critical_path.stretches import spans
from analysis.rundir.files import rewritten
from analysis.rundir.recorded_time import recorded_time
from analysis.tables import (
    block,
    counter,
    cpu_sample,
    cpu_stack,
    event,
    lock,
    lock_wait,
    phase,
    sched_window,
    stack,
    switch,
    thread,
    volume,
    wake,
)
from analysis.tables.spec import TableSpec

TRACE, README = "trace.pftrace", "README.txt"
SHOWN = (
    *("block", "volume", "counter", "cpu_sample", "cpu_stack", "event", "lock", "lock_wait"),
    *("phase", "sched_window", "stack", "switch", "thread", "wake"),
)
RULES = f"""\
Open {TRACE} in the Perfetto viewer (a page that reads the file in the browser), or query it with Perfetto's
trace processor. Every time is the tables' CLOCK_MONOTONIC; the trace calls it CLOCK_BOOTTIME. Requests are
slices from issue to completion, on a track for each class of a device, as many lanes as were under way at
once. The thread "not logged" of a CPU stands for threads that the recorder does not log; "not recorded" for
time in which switches were given up or lost, a thread that left the CPU there is in the state P. A wake-up
that was recorded before the switch of the thread that it wakes stands 1 ns behind that switch. Priority 255
and target CPU 65535 mean: not recorded. Annotations of events that are 0 are left out. The blocked function
is the one that tells the cause of the wait."""
T = TypeVar("T")


class _Notes:
    """Sentences on what is in the trace, and what is not."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, count: int, text: str) -> None:
        """A sentence that begins with a count, if there are any."""
        if count:
            self.lines.append(f"{count:,} {text}")


def write(source: Source, folder: Path) -> Exported:
    """Write the trace and its README."""
    run, notes = source.run, _Notes()
    start_ns, end_ns = _span(source)
    with rewritten(folder / TRACE) as file:
        trace = TraceFile(file, start_ns, run.int_("clock", "realtime_offset_ns"))
        trace.system(run.text("kernel", "release"), run.text("kernel", "version"), run.text("kernel", "arch"))
        parts: list[Callable[[], None]] = [
            lambda: _threads(trace, source, (start_ns, end_ns), notes),
            lambda: _phases(trace, source, notes),
            lambda: _requests(trace, source, volume.TABLE, 100, notes),
            lambda: _requests(trace, source, block.TABLE, 200, notes),
            lambda: _events(trace, source, notes),
            lambda: _series(trace, source, notes),
            lambda: _samples(trace, source, notes),
        ]
        for part in parts:
            try:
                part()
            except TableError as error:
                notes.lines.append(f"left out in part: {error}")
    missing = [name for name in source.tables() if name not in SHOWN]
    if missing:
        notes.lines.append(f"tables that are not in the trace: {', '.join(missing)} (TO=csv has them)")
    write_readme(source, folder / README, "a trace for Perfetto", RULES, notes.lines)
    return Exported([TRACE, README], notes.lines)


def _read(source: Source, spec: TableSpec[T]) -> T | None:
    stored = source.table(spec)
    return None if stored is None else spec.read(stored)


def _span(source: Source) -> tuple[int, int]:
    """Begin and end of the recording; where they are not stated, of its switches, else of its requests."""
    recorded = recorded_time(source.run)
    start, end = recorded.start_ns, recorded.end_ns
    for spec, column in ((switch.TABLE, "t_ns"), (block.TABLE, "issue_ns")):
        stored = source.table(spec) if start is None or end is None else None
        if stored is not None and stored.rows:
            times = stored.ints(column)
            times = times[times > 0]
            if times.size:
                start = int(times.min()) if start is None else start
                end = int(times.max()) if end is None else end
    start = 1 if start is None else start
    return start, max(start, end if end is not None else start)


def _threads(trace: TraceFile, source: Source, span_ns: tuple[int, int], notes: _Notes) -> None:
    known = _read(source, thread.TABLE)
    ids = threads.make_ids(known)
    if known is not None:
        threads.write_processes(trace, known, ids)
        notes.add(ids.reused, "threads have the id of an earlier one: the trace gives them another")
    given_up = _given_up(trace, source, span_ns, notes)
    switches = source.table(switch.TABLE)
    wakes = source.table(wake.TABLE)
    if switches is None or wakes is None:
        notes.lines.append(f"no states of threads: {source.run.absent('sched')}")
        return
    rows = switches.rows + wakes.rows
    if rows > ROWS_MOST or not fits(ids.numbers.size, *span_ns):
        notes.lines.append(
            f"no states of threads: {rows:,} switches and wake-ups are more than {ROWS_MOST:,}"
        )
        return
    stacks = _read(source, stack.TABLE) or {}
    counts = threads.write_scheduling(
        trace,
        switch.TABLE.read(switches),
        wake.TABLE.read(wakes),
        wakes.ints("cpu"),
        ids,
        given_up,
        span_ns,
        stacks,
    )
    notes.add(counts.switches, "switches, each with the state of the thread that leaves")
    notes.add(counts.wakes, "wake-ups")
    notes.add(counts.moved, "of them stand behind the switch that they were recorded before")
    notes.add(counts.unknown_context, "of them are of an unknown context, which stand as the task's own")
    notes.add(counts.lost, "times a CPU's thread is not known, as a switch between two others was lost")
    notes.add(counts.bad, "switches and wake-ups are left out: of no thread, CPU or time of the recording")


def _given_up(trace: TraceFile, source: Source, span_ns: tuple[int, int], notes: _Notes) -> Any:
    windows = _read(source, sched_window.TABLE)
    none = np.zeros(0, dtype=np.int64)
    begin, end = (none, none) if windows is None else (windows.start_ns, windows.end_ns)
    found = spans(begin, end, *span_ns)
    if found.begin.size:
        texts = ["no switch and no wake-up is recorded"] * found.begin.size
        event_tracks.write_spans(trace, 0, "threads not recorded", texts, found.begin, found.end, 10)
        notes.add(
            found.begin.size,
            "stretches of time have no switches: they were given up for the recorder's budget",
        )
    return found


def _phases(trace: TraceFile, source: Source, notes: _Notes) -> None:
    found = _read(source, phase.TABLE)
    if found is not None:
        notes.add(event_tracks.write_phases(trace, found, 20), "phases have impossible times: left out")


def _requests(trace: TraceFile, source: Source, spec: TableSpec[Any], rank: int, notes: _Notes) -> None:
    stored = source.table(spec)
    if stored is None:
        return
    what = "bios to volumes" if spec.name == "volume" else "requests"
    counts = requests.write_requests(trace, source.run, stored, rank)
    notes.add(counts.slices, f"{what}, from issue to completion")
    notes.add(counts.unfinished, f"{what} whose completion was not seen: moments, on a track of that name")
    notes.add(counts.bad, f"{what} have impossible times: left out")


def _events(trace: TraceFile, source: Source, notes: _Notes) -> None:
    found = _read(source, event.TABLE)
    if found is not None:
        count, bad = event_tracks.write_events(trace, found, 300)
        notes.add(count, "events of the file system, of writeback and of memory")
        notes.add(bad, "events have impossible times: left out")


def _series(trace: TraceFile, source: Source, notes: _Notes) -> None:
    sampled = _read(source, counter.TABLE)
    if sampled is not None:
        notes.add(series.write_counters(trace, sampled, 500), "samples of system counters")
    waits = _read(source, lock_wait.TABLE)
    if waits is not None and waits.bin_ns.size:
        locks = _read(source, lock.TABLE)
        own, others, ns = series.write_lock_waits(trace, waits, locks or {}, 400)
        more = f", {others:,} others together" if others else ""
        notes.lines.append(f"{ns / 1e9:,.3f} s of lock waits by time bin: {own:,} classes of locks{more}")


def _samples(trace: TraceFile, source: Source, notes: _Notes) -> None:
    stored = source.table(cpu_sample.TABLE)
    if stored is not None:
        stacks = _read(source, cpu_stack.TABLE)
        count, idle = samples.write_samples(trace, stored, stacks or {})
        notes.add(count, "CPU samples with their call paths")
        notes.add(idle, "CPU samples of idle CPUs are left out")


FORMAT = Format("perfetto", 10, "a trace for the Perfetto viewer: threads, requests, events, counters", write)
