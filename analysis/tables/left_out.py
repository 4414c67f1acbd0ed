# SPDX-License-Identifier: BSD-2-Clause
"""Rows of a recording outside the recorded time: conversion leaves them out of the table and counts them.

BPF programs record from when they are attached, up to half a second before the last one is attached and the
recording begins. A busy disk's requests of that time are in the recording, but no result may count them. A
request counts when it completes: one that was queued before the start and completed after it stays. A time
bin of which any part was recorded stays whole, because a sum cannot be divided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.rundir.recorded_time import Recorded
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk, RowTime

REASONS = {
    "request": ("completed before the recorded time began", "completed after it ended"),
    "bin": ("their time bins ended before the recorded time began", "their time bins began after it ended"),
    "moment": ("taken before the recorded time began", "taken after it ended"),
    "span": ("ended before the recorded time began", "began after it ended"),
}


@dataclass
class LeftOut:
    """How many rows of a recording the table leaves out."""

    before: int = 0
    after: int = 0

    def reasons(self, time: RowTime | None) -> list[tuple[int, str]]:
        """Number of rows and reason, without reasons that no row has. time: of the table."""
        if time is None:
            return []
        texts = REASONS[time.kind]
        return [(rows, text) for rows, text in zip((self.before, self.after), texts, strict=True) if rows]


def is_cut(time: RowTime | None, recorded: Recorded) -> bool:
    """Whether conversion drops rows. Runs from before record_start_ns keep all of them."""
    return time is not None and time.is_cut and recorded.start_ns is not None


def cutter(
    recording: Recording, time: RowTime | None, recorded: Recorded, count: LeftOut
) -> Callable[[Chunk], Chunk]:
    """Return a function that drops a chunk's records outside the recorded time and adds them to `count`.

    The recording must have the columns of `time` (write_recording() checks that).
    """
    start_ns = recorded.start_ns
    if time is None or not time.is_cut or start_ns is None:
        return lambda chunk: chunk
    end_ns = recorded.end_ns if recorded.end_ns is not None else np.iinfo(np.int64).max
    row_time = time

    def cut(chunk: Chunk) -> Chunk:
        before, after = row_time.outside(chunk, start_ns, end_ns, recording.bin_ns, recorded.is_window)
        outside = before | after
        if not outside.any():
            return chunk
        count.before += int(before.sum())
        count.after += int((after & ~before).sum())
        # as plain bytes: numpy copies records field by field, at ten times the cost
        rows = chunk.view(np.uint8).reshape(chunk.size, -1)[~outside]
        kept: Chunk = np.ascontiguousarray(rows).reshape(-1).view(chunk.dtype)
        return kept

    return cut
