# SPDX-License-Identifier: BSD-2-Clause
"""Gives requests of Btrfs commits their event, by thread and time.

The kernel shows a Btrfs commit when it has ended, with its begin. While it lasts the recorder can't tell that
the thread works for it, so its requests name no event: they are those that the thread sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from analysis.errors import TableError
from analysis.rundir.run import Run
from analysis.tables.rec import Recording, open_recording
from analysis.tables.row_time import Chunk

EVENTS_FILE = "raw/recorder/event.rec"
SHOWN_AT_END = "btrfs_commit"
NEEDED = ("start_ns", "end_ns", "tid", "event_id", "kind")
FIELDS = ("event_id", "event_kind", "pid", "queue_ns")


def join_events(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Return a function that fills in event_id and event_kind in a chunk of block records."""
    codes = [code for code, kind in recording.enums.get("event_kind", {}).items() if kind == SHOWN_AT_END]
    commits = _commits(run) if codes and set(FIELDS) <= set(recording.dtype.names or ()) else None
    if commits is None or not commits.size:
        return lambda chunk: chunk

    def join(chunk: Chunk) -> Chunk:
        rows = np.flatnonzero((chunk["event_id"] == 0) & np.isin(chunk["pid"], commits["tid"]))
        # commits of one file system follow each other; of several few overlap: the last that began counts
        at = np.searchsorted(commits["start_ns"], chunk["queue_ns"][rows], side="right") - 1
        of = commits[np.maximum(at, 0)]
        is_inside = (at >= 0) & (chunk["queue_ns"][rows] <= of["end_ns"]) & (chunk["pid"][rows] == of["tid"])
        # in place: a chunk is a buffer of its own, which the next one overwrites
        chunk["event_id"][rows[is_inside]] = of["event_id"][is_inside]
        chunk["event_kind"][rows[is_inside]] = codes[0]
        return chunk

    return join


def _commits(run: Run) -> Chunk | None:
    """The commits in the order of their begin; None: no events were recorded, or they are damaged."""
    try:
        recording = open_recording(run.open_path / EVENTS_FILE, "event")
    except (TableError, OSError):
        return None
    if not set(NEEDED) <= set(recording.dtype.names or ()):
        return None
    wanted = [code for code, kind in recording.enums.get("kind", {}).items() if kind == SHOWN_AT_END]
    # a chunk is overwritten by the next one: the rows are copies
    parts = [chunk[np.isin(chunk["kind"], wanted)] for chunk in recording.chunks()]
    if not parts:
        return None
    commits = np.concatenate(parts)
    return np.asarray(commits[np.argsort(commits["start_ns"], kind="stable")])
