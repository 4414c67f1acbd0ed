# SPDX-License-Identifier: BSD-2-Clause
"""What an emulated disk does at each moment, as spans that never overlap, and their sums up to any moment.

The head comes first: seeks, rotation and transfers of what it serves. A read from read-ahead is a transfer,
as the head reads it just then or did so before. What the electronics do while the head rests is overhead. The
rest is idle: also what the head reads ahead before anybody asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analysis.measures.common.intervals import joined
from analysis.tables.disk_service import DiskService
from analysis.tables.store import I64, Categorical


class State(IntEnum):
    """What the disk does. IDLE is no span: it is what the others leave."""

    SEEK = 0
    ROTATION = 1
    TRANSFER = 2
    OVERHEAD = 3
    IDLE = 4


BUSY = (State.SEEK, State.ROTATION, State.TRANSFER, State.OVERHEAD)
HEAD = (State.SEEK, State.ROTATION, State.TRANSFER)
WORDS = {
    State.SEEK: "seeking",
    State.ROTATION: "rotating",
    State.TRANSFER: "transferring",
    State.OVERHEAD: "overhead",
    State.IDLE: "idle",
}
DEFINITION = (
    "seeking: the head moves, settles, or another is selected; rotating: it waits for the sectors to come by;"
    " transferring: data pass it, or come from what it read ahead; overhead: the electronics alone are at"
    " work (commands, the bus, the write cache); idle: the rest, reading ahead unasked among it. Where the"
    " electronics work beside the head, the head counts: the parts sum to the recorded time. By the disk's"
    " own record, in s of the clock."
)


@dataclass(frozen=True)
class Spent:
    """Spans that ascend and do not overlap."""

    begin: I64
    end: I64

    @cached_property
    def _before(self) -> I64:
        return np.concatenate(([0], np.cumsum(self.end - self.begin)))

    def until(self, t_ns: I64) -> I64:
        """Time within the spans before each moment."""
        if not self.begin.size:
            return np.zeros(np.shape(t_ns), dtype=np.int64)
        at = np.searchsorted(self.begin, t_ns, side="right") - 1
        row = np.maximum(at, 0)
        inside = np.clip(t_ns - self.begin[row], 0, self.end[row] - self.begin[row])
        return np.asarray(np.where(at >= 0, self._before[row] + inside, 0))

    def within(self, begin_ns: I64, end_ns: I64) -> I64:
        """Time that each interval has in common with the spans."""
        return np.asarray(np.maximum(self.until(end_ns) - self.until(begin_ns), 0))


@dataclass(frozen=True)
class States:
    """The spans of one disk, in order."""

    begin: I64
    end: I64
    state: npt.NDArray[np.uint8]
    class_: npt.NDArray[np.integer]  # code of the class that it serves, see Joined.class_
    is_destage: npt.NDArray[np.bool_]

    def of(self, state: State, class_: int | None = None) -> Spent:
        """The spans of one state, of all classes or one."""
        mask = self.state == state
        if class_ is not None:
            mask &= self.class_ == class_
        return Spent(self.begin[mask], self.end[mask])

    @cached_property
    def busy(self) -> Spent:
        """All spans."""
        return Spent(self.begin, self.end)


def states_of(service: DiskService, class_: Categorical, rows: I64) -> States:
    """The spans of these rows, of one disk. class_: of all rows of the table."""
    rows = rows[service.timed[rows] & ~service.op.is_("flush")[rows]]
    how = service.how
    is_media, is_ahead = how.is_("media")[rows], how.is_("read_ahead")[rows]
    parts: list[tuple[I64, I64, I64, npt.NDArray[np.uint8]]] = []  # row, begin, end, state
    taken: tuple[I64, I64] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for mask in (is_media, is_ahead, ~is_media & ~is_ahead):
        mine = rows[mask]
        begin, end = _left(service.start_ns[mine], service.end_ns[mine], *taken)
        kept = end > begin
        mine, begin, end = mine[kept], begin[kept], end[kept]
        if not mine.size:
            continue
        order = np.argsort(begin, kind="stable")
        mine, begin, end = mine[order], begin[order], end[order]
        # a disk does one thing at a time: of rows that say otherwise the earlier counts
        begin = np.maximum(begin, np.append(begin[0], np.maximum.accumulate(end)[:-1]))
        parts += _pieces(service, mine, begin, end)
        taken = joined(np.concatenate((taken[0], begin)), np.concatenate((taken[1], np.maximum(begin, end))))
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return States(nothing, nothing, np.zeros(0, np.uint8), nothing, np.zeros(0, np.bool_))
    row, begin, end, state = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(begin, kind="stable")
    row, begin, end, state = row[order], begin[order], end[order], state[order]
    return States(begin, end, state, class_.codes[row], service.op.is_("destage")[row])


def _left(start: I64, end: I64, begins: I64, ends: I64) -> tuple[I64, I64]:
    """What of each interval lies before the next of the spans taken, after one that it begins in."""
    if not begins.size:
        return start, end
    at = np.searchsorted(begins, start, side="right") - 1
    begin = np.where(at >= 0, np.maximum(start, ends[np.maximum(at, 0)]), start)
    following = np.searchsorted(begins, begin, side="right")
    limit = np.append(begins, np.iinfo(np.int64).max)[following]
    return begin, np.minimum(end, limit)


def _pieces(
    service: DiskService, rows: I64, begin: I64, end: I64
) -> list[tuple[I64, I64, I64, npt.NDArray[np.uint8]]]:
    """The rows' pieces, one after the other, cut to [begin, end)."""
    by_cache = service.how.is_("cache")[rows]
    edge = service.start_ns[rows]
    found = []
    for state, name in (
        (State.OVERHEAD, "overhead_ns"),
        (State.SEEK, "seek_ns"),
        (State.ROTATION, "rotation_ns"),
        (State.TRANSFER, "transfer_ns"),
    ):
        upper = edge + getattr(service, name)[rows]
        first, last = np.maximum(edge, begin), np.minimum(upper, end)
        is_some = last > first
        codes = np.where(by_cache, State.OVERHEAD, state).astype(np.uint8)
        found.append((rows[is_some], first[is_some], last[is_some], codes[is_some]))
        edge = upper
    return found
