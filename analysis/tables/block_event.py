# SPDX-License-Identifier: BSD-2-Clause
"""Gives requests the events that the recorder could not name as they were sent, by thread and time.

- Btrfs commits: the kernel shows one when it has ended, with its begin. Its requests are those that the
  thread sent meanwhile.
- Readahead: a moment, just before the thread sends the window's reads of this inode.
- XFS log forces: a moment, after which the thread writes the log itself, or a worker does so for it. A
  worker's write belongs to the last force of the file system, if that was just before; else the log was
  written for its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.errors import TableError
from analysis.origins.why import functions_of
from analysis.rundir.run import Run
from analysis.tables.rec import Recording, open_recording
from analysis.tables.row_time import I64, Chunk

EVENTS_FILE = "raw/recorder/event.rec"
COMMIT, READAHEAD, FORCE = "btrfs_commit", "readahead", "xfs_log_force"
NEEDED = ("start_ns", "end_ns", "tid", "event_id", "kind", "ino", "dev")
FIELDS = ("event_id", "event_kind", "pid", "queue_ns", "flags", "ino", "op", "sb_dev", "end_io_id", "work_id")
FLAG_AHEAD = 16  # BLOCK_FLAG_AHEAD in bpf/block/block_records.h
LATEST_NS = 1 << 60  # 36 years
LOG_END, LOG_WORK = "xlog_bio_end_io", "xlog_cil_push_work"
FORCED_NS = 1_000_000_000  # a thread sends the log that it forces out before it does anything else
WORK_NS = 10_000_000  # a worker that is asked to does so within milliseconds
WINDOW_NS = 10_000_000  # a window's reads are sent within microseconds, unless the thread loses its CPU


@dataclass(frozen=True)
class _Events:
    """Events of one kind in the order of thread (or file system) and begin."""

    code: int  # of the kind, in the block table's event_kind
    rows: Chunk
    by: str  # "tid" or "dev"
    owners: npt.NDArray[np.integer]
    keys: I64  # thread or file system, and begin, as one number
    first_ns: int
    span_ns: int

    @classmethod
    def make(cls, code: int, rows: Chunk, by: str = "tid") -> _Events:
        """Of events whose times a clock can have: a damaged recording has any."""
        rows = rows[(rows["start_ns"] < LATEST_NS) & (rows["end_ns"] < LATEST_NS)]
        owners, number = np.unique(rows[by], return_inverse=True)
        start = rows["start_ns"].astype(np.int64)
        first = int(start.min(initial=LATEST_NS))
        span = max(int(start.max(initial=0)) - first, 0) + 2
        if owners.size * span >= 1 << 62:
            return cls.make(code, rows[:0], by)
        keys = number.astype(np.int64) * span + (start - first)
        order = np.argsort(keys, kind="stable")
        return cls(code, rows[order], by, owners, keys[order], first, span)

    def before(self, chunk: Chunk, rows: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], Chunk]:
        """The rows whose thread or file system had such an event before, and the last one of each."""
        if not self.keys.size:
            return rows[:0], self.rows
        owner = chunk["pid" if self.by == "tid" else "sb_dev"][rows]
        number = np.minimum(np.searchsorted(self.owners, owner), self.owners.size - 1)
        is_known = self.owners[number] == owner
        since = np.clip(chunk["queue_ns"][rows].astype(np.int64) - self.first_ns, -1, self.span_ns - 2)
        at = np.searchsorted(self.keys, number * self.span_ns + since, side="right") - 1
        event = self.rows[np.maximum(at, 0)]
        is_found = is_known & (since >= 0) & (at >= 0) & (event[self.by] == owner)
        return rows[is_found], event[is_found]


def join_events(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Return a function that fills in event_id and event_kind in a chunk of block records."""
    if not recording.has_numbers(FIELDS):
        return lambda chunk: chunk
    codes = {kind: code for code, kind in recording.enums.get("event_kind", {}).items()}
    read = {kind: rows for kind, rows in _read(run).items() if kind in codes}
    forced = read.pop(FORCE, None)
    found = {kind: _Events.make(codes[kind], rows) for kind, rows in read.items()}
    join_log = None if forced is None else _log_writes(run, codes[FORCE], forced)
    reads = [code for code, op in recording.enums.get("op", {}).items() if op == "read"]

    def join(chunk: Chunk) -> Chunk:
        for kind, events in found.items():
            rows = np.flatnonzero(chunk["event_id"] == 0)
            if kind == READAHEAD:
                is_ahead = (chunk["flags"][rows] & FLAG_AHEAD != 0) & np.isin(chunk["op"][rows], reads)
                rows, event = events.before(chunk, rows[is_ahead])
                end_ns = event["start_ns"] + np.uint64(WINDOW_NS)
                is_of = (event["ino"] == chunk["ino"][rows]) & (chunk["queue_ns"][rows] <= end_ns)
            else:
                rows, event = events.before(chunk, rows)
                is_of = chunk["queue_ns"][rows] <= event["end_ns"]
            # in place: a chunk is a buffer of its own, which the next one overwrites
            chunk["event_id"][rows[is_of]] = event["event_id"][is_of]
            chunk["event_kind"][rows[is_of]] = events.code
        return join_log(chunk) if join_log is not None else chunk

    return join


def _log_writes(run: Run, code: int, forced: Chunk) -> Callable[[Chunk], Chunk] | None:
    """Return a function that gives writes of XFS's log their log force; None: functions are not known."""
    numbers = {name: number for number, name in functions_of(run).items()}
    if LOG_END not in numbers:
        return None
    work = numbers.get(LOG_WORK, 0)
    by_thread, by_file_system = (_Events.make(code, forced, by) for by in ("tid", "dev"))

    def join(chunk: Chunk) -> Chunk:
        for events, most_ns in ((by_thread, FORCED_NS), (by_file_system, WORK_NS)):
            is_log = (chunk["event_id"] == 0) & (chunk["end_io_id"] == numbers[LOG_END])
            if events is by_file_system:
                is_log &= (chunk["work_id"] == work) & (work > 0)
            rows, event = events.before(chunk, np.flatnonzero(is_log))
            is_of = chunk["queue_ns"][rows] <= event["start_ns"] + np.uint64(most_ns)
            chunk["event_id"][rows[is_of]] = event["event_id"][is_of]
            chunk["event_kind"][rows[is_of]] = code
        return chunk

    return join


def _read(run: Run) -> dict[str, Chunk]:
    """The events by kind; none if no events were recorded, or they are damaged."""
    try:
        recording = open_recording(run.open_path / EVENTS_FILE, "event")
    except (TableError, OSError):
        return {}
    if not recording.has_numbers(NEEDED):
        return {}
    rows = {}
    for code, kind in recording.enums.get("kind", {}).items():
        if kind in (COMMIT, READAHEAD, FORCE):
            # a chunk is overwritten by the next one: the rows are copies
            parts = [chunk[chunk["kind"] == code] for chunk in recording.chunks()]
            if sum(part.size for part in parts):
                rows[kind] = np.concatenate(parts)
    return rows
