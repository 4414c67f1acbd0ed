# SPDX-License-Identifier: BSD-2-Clause
"""Time of a table's rows: the time columns, and the rows inside or outside of an interval.

A row is a moment (a sample), a time bin (a sum), a request (queue to completion) or a span (begin to end).
All times are CLOCK_MONOTONIC nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Chunk = npt.NDArray[np.void]
BIN_NS = 100_000_000  # time bins of a recording that does not state their length


@dataclass(frozen=True)
class RowTime:
    """The time columns of a table, and what the table's times are used for."""

    kind: Literal["moment", "bin", "request", "span"]
    start: str  # column: begin of the row
    end: str  # column: end of the row; of a bin the field with its length
    # rows outside the recorded time are dropped when the recording is converted (left_out.py)
    is_cut: bool = True
    # the rows tell when recording began and ended where run.json does not
    gives_window: bool = True
    # results of a run with recorded mkfs or fsck use only the rows of the time between (measures/clip.py)
    is_clipped: bool = True

    def bounds_ns(self, table: Any) -> tuple[I64, I64]:
        """Begin and end of each row of a table that was read. A request begins at its issue."""
        start, end = getattr(table, self.start), getattr(table, self.end)
        return start, start + end if self.kind == "bin" else end

    def inside(self, table: Any, start_ns: int, end_ns: int) -> Mask:
        """Rows of [start, end): requests by completion, bins by their middle, spans if they overlap it."""
        start, end = getattr(table, self.start), getattr(table, self.end)
        if self.kind == "span":
            return np.asarray((end > start_ns) & (start < end_ns))
        at = start + end // 2 if self.kind == "bin" else end
        return np.asarray((at >= start_ns) & (at < end_ns))

    def outside(
        self, chunk: Chunk, start_ns: int, end_ns: int, bin_ns: int | None, in_flight: bool = False
    ) -> tuple[Mask, Mask]:
        """Records that end before the start, and records that begin (requests: complete) after the end.

        A bin that was recorded in part is inside. A request whose completion was not seen is before if it had
        ended before the start, and after if it was issued after the end. One without a bound counts as ended
        when it was issued; in_flight: it had not ended at the end.
        """
        start = chunk[self.start]
        if self.kind == "bin":
            return start <= start_ns - (bin_ns or BIN_NS), start >= end_ns
        end = chunk[self.end]
        if self.kind != "request":
            return end < start_ns, start > end_ns
        is_completed = end > 0
        end = np.where(is_completed, end, start)
        until = end
        if "end_by_ns" in (chunk.dtype.names or ()):  # else the recording is older than that column
            bound = chunk["end_by_ns"]
            until = np.where(is_completed, end, np.where(bound == 0, end_ns if in_flight else end, bound))
        return until < start_ns, end > end_ns


def moment(column: str, is_cut: bool = True, gives_window: bool = True) -> RowTime:
    """Rows that are one moment each."""
    return RowTime("moment", column, column, is_cut, gives_window)


def bins(gives_window: bool = True, is_clipped: bool = True) -> RowTime:
    """Rows that are sums over a time bin, of the columns bin_ns and length_ns."""
    return RowTime("bin", "bin_ns", "bin_length_ns", True, gives_window, is_clipped)
