# SPDX-License-Identifier: BSD-2-Clause
"""Which rows of a recording lie outside of the recorded time: tables leave them out, and say how many.

BPF programs record from when they are attached, up to half a second before the last of them is and the
recording begins. A busy disk's requests of that time are rows, though no figure may count them. A request
counts when it completes: one that was queued before the start and completed after it stays. One whose end was
not seen is left out if it had ended before the start, or was issued after the end. A time bin stays if any
part of it was recorded, and then counts whole: it cannot be taken apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.rundir.recorded_time import Recorded
from analysis.tables.rec import Recording

BIN_NS = 100_000_000  # of a recording that does not say how long its bins are
Chunk = npt.NDArray[np.void]
Rows = npt.NDArray[np.bool_]
Outside = tuple[Rows, Rows]  # before the start, after the end

MEANING = {
    "block": ("completed before the recorded time began", "completed after it ended"),
    "bins": ("their time bins ended before the recorded time began", "their time bins began after it ended"),
    "moments": ("taken before the recorded time began", "taken after it ended"),
}


@dataclass
class LeftOut:
    """How many rows of a table were left out."""

    before: int = 0
    after: int = 0

    def reasons(self, table: str) -> list[tuple[int, str]]:
        """How many and why, of those that there are."""
        why = MEANING["block" if table == "block" else "moments" if table in MOMENTS else "bins"]
        return [(n, words) for n, words in zip((self.before, self.after), why, strict=True) if n]


def _requests(chunk: Chunk, start_ns: int, end_ns: int) -> Outside:
    names = chunk.dtype.names or ()
    complete, issue = chunk["complete_ns"], chunk["issue_ns"]
    seen = complete > 0
    end = np.where(seen, complete, issue)
    until = end
    if "end_by_ns" in names:  # else the recording is older
        until = np.where(seen | (chunk["end_by_ns"] == 0), end, chunk["end_by_ns"])
    return until < start_ns, end > end_ns


def _moments(chunk: Chunk, start_ns: int, end_ns: int) -> Outside:
    return chunk["t_ns"] < start_ns, chunk["t_ns"] > end_ns


def _bins(chunk: Chunk, start_ns: int, end_ns: int, bin_ns: int) -> Outside:
    return chunk["bin_ns"] <= start_ns - bin_ns, chunk["bin_ns"] >= end_ns


MOMENTS = ("counter", "cpu_sample")
TABLES = ("block", "lock_wait", "lock_sample", "hold", "call", *MOMENTS)


def is_cut(table: str, recorded: Recorded) -> bool:
    """Are rows of this table left out at all? Not of older runs, which do not say when recording began."""
    return table in TABLES and recorded.start_ns is not None


def cutter(recording: Recording, recorded: Recorded, count: LeftOut) -> Callable[[Chunk], Chunk]:
    """Return what takes the rows outside of the recorded time out of a chunk, and counts them.

    The recording has the table's columns (write_recording() has looked).
    """
    table, start_ns = recording.table, recorded.start_ns
    if not is_cut(table, recorded) or start_ns is None:
        return lambda chunk: chunk
    end_ns = recorded.end_ns if recorded.end_ns is not None else np.iinfo(np.int64).max
    bin_ns = recording.bin_ns or BIN_NS

    def cut(chunk: Chunk) -> Chunk:
        if table == "block":
            before, after = _requests(chunk, start_ns, end_ns)
        elif table in MOMENTS:
            before, after = _moments(chunk, start_ns, end_ns)
        else:
            before, after = _bins(chunk, start_ns, end_ns, bin_ns)
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
