# SPDX-License-Identifier: BSD-2-Clause
"""File-system events by kind and reason: how many, how long, of how many bytes; the phases of commits.

Events of other file systems are counted apart: that below a loop device, or one that another program uses.
An event that began before the window, or ended after it, counts with the part inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.common.intervals import joined
from analysis.measures.common.statistics import percentiles
from analysis.measures.common.timeline import F64, Timeline
from analysis.rundir.run import Run
from analysis.rundir.tested import tested_filesystem
from analysis.tables.event import PHASES, Event
from analysis.tables.store import I64


@dataclass(frozen=True)
class Longest:
    """The longest event of a kind."""

    start_ns: int
    length_ns: int
    why: str
    asker_call: str
    asker_tid: int
    comm: str


@dataclass(frozen=True)
class EventRow:
    """The events of one kind, or of one kind and reason."""

    kind: str
    why: str  # empty: of all reasons
    count: int
    total_ns: int  # sum of the lengths; events of several threads may overlap
    covered_ns: int  # time in which at least one was under way
    p99_ns: int
    max_ns: int
    bytes: int
    open: int  # of count: their end was not seen, so they have no length

    @property
    def mean_ns(self) -> float:
        """Mean length of those whose end was seen."""
        return self.total_ns / max(self.count - self.open, 1)


@dataclass(frozen=True)
class PhaseRow:
    """One phase of the events of a kind."""

    kind: str
    phase: str
    total_ns: int
    mean_ns: float
    max_ns: int


@dataclass(frozen=True)
class EventResults:
    """All kinds of events that occurred."""

    rows: list[EventRow]  # most time first
    by_why: Mapping[str, list[EventRow]]  # by kind, most first; a kind with one reason has one row
    phases: list[PhaseRow]
    longest: Mapping[str, Longest]
    covered: Mapping[str, F64]  # by kind: share of each bin in which one was under way
    others: Mapping[int, int]  # left out: events by the device of their file system, most first


def own_devices(run: Run) -> frozenset[int]:
    """Numbers of the tested file system and its devices."""
    return tested_filesystem(run).own_numbers


def measure_events(event: Event, timeline: Timeline, own: frozenset[int]) -> EventResults:
    """Events that overlap the timeline. own: see own_devices(); empty: all are the tested file system's."""
    first, last = int(timeline.edges_ns[0]), int(timeline.edges_ns[-1])
    inside = (event.end_ns >= first) & (event.start_ns <= last)
    is_own = (event.dev == 0) | np.isin(event.dev, sorted(own)) | (not own)
    devices, counts = np.unique(event.dev[inside & ~is_own], return_counts=True)
    others = {int(devices[i]): int(counts[i]) for i in np.argsort(-counts, kind="stable")}
    inside &= is_own
    begin = np.clip(event.start_ns, first, last)
    end = np.maximum(np.clip(event.end_ns, first, last), begin)  # a foreign run may have any times
    end[event.is_open] = begin[event.is_open]
    rows, by_why, phases, longest, covered = [], {}, [], {}, {}
    for kind in event.kind.labels:
        of_kind = np.flatnonzero(inside & event.kind.is_(kind))
        if not of_kind.size or kind in ("", "none"):
            continue
        rows.append(_row(kind, "", event, of_kind, begin, end))
        by_why[kind] = _by_why(kind, event, of_kind, begin, end)
        phases += _phases(kind, event, of_kind)
        at = int(of_kind[int(np.argmax((end - begin)[of_kind]))])
        longest[kind] = _longest(event, at, int(end[at] - begin[at]))
        covered[kind] = _covered(*joined(begin[of_kind], end[of_kind]), timeline)
    rows.sort(key=lambda row: (-row.total_ns, -row.count, row.kind))
    return EventResults(rows, by_why, phases, longest, covered, others)


def _row(kind: str, why: str, event: Event, at: npt.NDArray[np.intp], begin: I64, end: I64) -> EventRow:
    lengths = (end - begin)[at]
    known = lengths[~event.is_open[at]]
    starts, ends = joined(begin[at], end[at])
    return EventRow(
        kind=kind,
        why=why,
        count=int(at.size),
        total_ns=int(lengths.sum()),
        covered_ns=int((ends - starts).sum()),
        p99_ns=int(percentiles(known if known.size else lengths, [99.0])[0]),
        max_ns=int(lengths.max()),
        bytes=int(event.bytes[at].sum()),
        open=int(np.count_nonzero(event.is_open[at])),
    )


def _by_why(kind: str, event: Event, at: npt.NDArray[np.intp], begin: I64, end: I64) -> list[EventRow]:
    codes = event.why.codes[at]
    found = [
        _row(kind, event.why.labels[int(code)], event, at[codes == code], begin, end)
        for code in np.unique(codes)
    ]
    return sorted(found, key=lambda row: (-row.total_ns, -row.count, row.why))


def _phases(kind: str, event: Event, at: npt.NDArray[np.intp]) -> list[PhaseRow]:
    columns = (event.p1_ns, event.p2_ns, event.p3_ns, event.p4_ns, event.p5_ns)
    if not any(values[at].any() for values in columns):  # the kernel does not show them
        return []
    return [
        PhaseRow(kind, name, int(values[at].sum()), float(values[at].mean()), int(values[at].max()))
        for name, values in zip(PHASES.get(kind, ()), columns, strict=False)
        if name
    ]


def _longest(event: Event, at: int, length_ns: int) -> Longest:
    return Longest(
        start_ns=int(event.start_ns[at]),
        length_ns=length_ns,
        why=event.why.labels[int(event.why.codes[at])],
        asker_call=event.asker_call.labels[int(event.asker_call.codes[at])],
        asker_tid=int(event.asker_tid[at]),
        comm=event.comm.labels[int(event.comm.codes[at])],
    )


def _covered(begin: I64, end: I64, timeline: Timeline) -> F64:
    """Share of each bin that these intervals, which do not overlap, cover."""
    zero = int(timeline.edges_ns[0])
    total = np.cumsum(end - begin)
    x = np.stack([begin - zero, end - zero], axis=1).reshape(-1).astype(np.float64)
    y = np.stack([total - (end - begin), total], axis=1).reshape(-1).astype(np.float64)
    at = np.interp((timeline.edges_ns - zero).astype(np.float64), x, y)
    return np.clip(np.diff(at) / np.diff(timeline.edges_ns), 0, 1)
