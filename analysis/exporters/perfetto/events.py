# SPDX-License-Identifier: BSD-2-Clause
"""Events of the file system and of writeback, and phases of the workload, as tracks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.exporters.perfetto.lanes import lanes
from analysis.exporters.perfetto.trace_file import EVENT_NAMES, Annotation, TraceFile
from analysis.tables.event import PHASES, Event
from analysis.tables.phase import Phases
from analysis.tables.store import I64

PARTS = {
    "btrfs_commit": range(1, 6),
    "jbd2_commit": range(3, 6),
    "xfs_log_force": range(1, 3),
}  # that make its length
NUMBERS = ("tid", "asker_tid", "sequence", "ino", "pages", "blocks", "bytes", "count")
MOST_NS = 1 << 62


def write_spans(
    trace: TraceFile,
    parent: int,
    name: str,
    texts: Sequence[str],
    begin: I64,
    end: I64,
    rank: int,
    annotations: Sequence[Annotation] = (),
) -> int:
    """Write spans on a track with lanes, each with its text; returns how many have impossible times."""
    good = np.flatnonzero((begin > 0) & (end >= begin) & (end < MOST_NS))
    if good.size:
        lane = lanes(begin[good], end[good])
        tracks = np.array([trace.track(name, parent, rank) for _ in range(int(lane.max()) + 1)])
        names = trace.intern_all(EVENT_NAMES, texts)[good]
        trace.slices(tracks[lane], names, begin[good], end[good], [_take(one, good) for one in annotations])
    return int(begin.size - good.size)


def _take(one: Annotation, rows: I64) -> Annotation:
    absent = None if one.is_absent is None else one.is_absent[rows]
    return Annotation(one.name, one.values[rows], one.texts, absent)


def write_events(trace: TraceFile, events: Event, rank: int) -> tuple[int, int]:
    """A track for each kind; returns the events written, and those with impossible times."""
    parent = trace.track("file system, writeback, memory", rank=rank)
    bad = 0
    for code, kind in enumerate(events.kind.labels):
        rows = np.flatnonzero(events.kind.codes == code)
        if not rows.size:
            continue
        why = [events.why.labels[i] for i in events.why.codes[rows]]
        texts = [kind if reason in ("none", "") else f"{kind}: {reason}" for reason in why]
        values = {name: getattr(events, name)[rows] for name in NUMBERS}
        annotations = [Annotation(name, value, is_absent=value == 0) for name, value in values.items()]
        annotations.append(Annotation("thread", events.comm.codes[rows], events.comm.labels))
        annotations.append(Annotation("open at the end", events.is_open[rows].astype(np.int64)))
        begin, end = events.start_ns[rows], events.end_ns[rows]
        bad += write_spans(trace, parent, kind, texts, begin, end, 2 * code, annotations)
        if kind in PARTS:
            _write_parts(trace, parent, kind, events, rows, 2 * code + 1)
    return int(events.start_ns.size) - bad, bad


def _write_parts(trace: TraceFile, parent: int, kind: str, events: Event, rows: I64, rank: int) -> None:
    """The phases that sum to an event's length, on a track of their own, where they do."""
    lengths = [getattr(events, f"p{number}_ns")[rows] for number in PARTS[kind]]
    begin = events.start_ns[rows]
    whole = sum(lengths)
    fits = (whole == events.end_ns[rows] - begin) & (whole > 0)
    for length in lengths:
        fits &= length >= 0
    begins, ends, names = [], [], []
    for number, length in zip(PARTS[kind], lengths, strict=True):
        begins.append(begin[fits])
        ends.append((begin + length)[fits])
        names += [PHASES[kind][number - 1]] * int(fits.sum())
        begin = begin + length
    order = np.argsort(np.concatenate(begins), kind="stable")
    starts, stops = np.concatenate(begins)[order], np.concatenate(ends)[order]
    write_spans(trace, parent, f"{kind}: its phases", [names[i] for i in order], starts, stops, rank)


def write_phases(trace: TraceFile, phases: Phases, rank: int) -> int:
    """The workload's phases; returns how many have impossible times."""
    begin = np.asarray(phases.start_ns, dtype=np.int64)
    end = np.asarray(phases.end_ns, dtype=np.int64)
    return write_spans(trace, 0, "phases of the workload", list(phases.name), begin, end, rank)
