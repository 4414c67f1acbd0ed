# SPDX-License-Identifier: BSD-2-Clause
"""Window of a run: the recorded time and the workload's time, shared by all measures and pictures.

From run.json's clock, where that is valid, else from the tables. The window ends with the recording; after a
recorder that died, with its last record. No window is longer than LONGEST_RUN_NS, whatever times
a foreign run has: rows outside count in the first or last bin; a gap says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis import units
from analysis.rundir.recorded_time import LONGEST_RUN_NS, recorded_time
from analysis.rundir.run import Run
from analysis.tables.load import TABLES, Tables
from analysis.tables.store import I64

QUANTUM_NS = 100_000_000


@dataclass(frozen=True)
class Window:
    """The recorded time, the workload's time (CLOCK_MONOTONIC ns) and where they were taken from."""

    start_ns: int
    end_ns: int
    work_start_ns: int
    work_end_ns: int
    stated: bool  # from run.json; else from the tables, and the workload's time is the recorded time

    @property
    def elapsed_s(self) -> float:
        """Length of the recording."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def work_s(self) -> float:
        """Length of the workload."""
        return (self.work_end_ns - self.work_start_ns) / 1e9


def _spans(tables: Tables, recorded_only: bool = False) -> tuple[list[I64], list[I64]]:
    """Begin and end of the rows of each table that gives a window, invalid times (0 or less) included.

    recorded_only: only tables that a collector wrote. The workload, which writes the phases, may outlive it.
    """
    spans: list[tuple[I64, I64]] = []
    for spec in TABLES.values():
        table = tables.get(spec)
        if table is None or spec.time is None or not spec.time.gives_window:
            continue
        if spec.collector or not recorded_only:
            spans.append(spec.time.bounds_ns(table))
    return [begin for begin, _ in spans if begin.size], [end for _, end in spans if end.size]


def _least(times: list[I64], above: int) -> int | None:
    """The earliest moment after `above`; None without one."""
    earliest = [int(t.min(where=t > above, initial=np.iinfo(np.int64).max)) for t in times]
    return min((t for t in earliest if t < np.iinfo(np.int64).max), default=None)


def _most(times: list[I64], below: int) -> int | None:
    """The latest moment before `below`; None without a valid time (above 0)."""
    return max((t for t in (int(t.max(where=t < below, initial=0)) for t in times) if t), default=None)


def _taken(begins: list[I64], ends: list[I64]) -> tuple[int, int]:
    """First and last moment of the tables; if too far apart, of the rows around the median begin."""
    first = _least(begins, 0) or 0
    last = _most(ends, np.iinfo(np.int64).max) or first + 1
    if last - first <= LONGEST_RUN_NS:
        return first, last
    most = max(begins, key=lambda t: t.size)
    real = most[most > 0]
    middle = int(np.partition(real, real.size // 2)[real.size // 2]) if real.size else first
    half = LONGEST_RUN_NS // 2
    first = max(_least(begins, middle - half - 1) or middle, middle - half)
    return min(first, middle), max(_most(ends, middle + half) or middle, middle) + 1


def _outside(begins: list[I64], ends: list[I64], start_ns: int, end_ns: int) -> int:
    """Number of rows that end before the start or begin after the end, by more than QUANTUM_NS."""
    count = sum(int(((e > 0) & (e < start_ns - QUANTUM_NS)).sum()) for e in ends)
    return count + sum(int((b > end_ns + QUANTUM_NS).sum()) for b in begins)


def _last_recorded(run: Run, tables: Tables, start_ns: int) -> int | None:
    """Time of the last record, or the recorder's last sign of life; None: neither is after the start."""
    latest_ns = start_ns + LONGEST_RUN_NS
    ends = [_most(_spans(tables, recorded_only=True)[1], latest_ns), run.recorder_until_ns]
    stated = run.int_("clock", "record_end_ns")
    last = max((t for t in ends if t is not None and start_ns < t < latest_ns), default=None)
    return last if last is None or stated is None or not start_ns < stated < last else stated


def find_window(run: Run, tables: Tables) -> Window:
    """The window from run.json's clock, where that is valid, else from the tables."""
    begins, ends = _spans(tables)
    recorded = recorded_time(run)
    stated_end, stated_work = run.int_("clock", "record_end_ns"), run.int_("clock", "workload_start_ns")
    start, end = recorded.start_ns, recorded.end_ns
    reason = "the session did not end in order: figures are of the {} s until its recorder noticed"
    if start is not None and end is None:
        reason = "the recorder did not end in order: figures are of the {} s until the last that it left"
        if run.recording_complete is not False:
            reason = "no file states when recording ended: figures are of the {} s until the last record"
        end = _last_recorded(run, tables, start)
    is_stated = start is not None and end is not None
    if start is None or end is None:
        first, last = _taken(begins, ends)
        if start is None or not max(0, last - LONGEST_RUN_NS) < start <= first:
            start = first
        end = max(last, start + 1)
        if run.asked:  # else there was no recording
            run.missing.append("run.json does not say when recording began and ended: taken from the tables")
    elif stated_end is None or stated_end - end >= QUANTUM_NS:
        run.missing.append(reason.format(units.seconds((end - start) / 1e9)))
    if outside := _outside(begins, ends, start, end):
        where = "the recorded time run.json states" if is_stated else "the 400 days that most rows lie in"
        run.missing.append(
            f"{outside:,} rows lie more than 0.1 s outside {where}; they are counted in the first or last bin"
        )
    work_start = max(stated_work or start, start)
    work_end = min(run.int_("clock", "workload_end_ns") or end, end)
    if work_start >= work_end:
        work_start, work_end = start, end
    return Window(start, end, work_start, work_end, is_stated and (stated_end or stated_work) is not None)
