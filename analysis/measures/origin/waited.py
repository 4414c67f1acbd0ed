# SPDX-License-Identifier: BSD-2-Clause
"""Whether the workload waited for a request: for its completion, or for the event or call that sent it.

The recorder sees a thread of the workload that a request's completion wakes. It does not see a wait that a
kernel thread passes on. A worker that ends a read or writeback wakes who waits for the page (passed_on.py).
jbd2 wakes the fsync() when all requests of its commit are done: such a request belongs to an event that the
workload asked for, and waited for as a whole. A call that synchronizes waits for
all that it wrote, and a read that was not sent ahead is one that the call needs now. What none of these shows
is "not seen": the workload may have waited all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.common.intervals import joined
from analysis.tables.block import Block
from analysis.tables.event import Event
from analysis.tables.store import I64, Categorical

NOT_SEEN, COMPLETION, EVENT, PAGE = range(4)
WAITED = ("not seen", "completion", "event", "page")
# A call on whose behalf the event began waits for its end.
AWAITED_KINDS = (
    "jbd2_commit",
    "jbd2_fast_commit",
    "jbd2_checkpoint",
    "xfs_log_force",
    "xfs_grant_sleep",
    "xfs_cil_wait",
    "btrfs_commit",
    "btrfs_ticket",
    "f2fs_checkpoint",
    "nilfs_segment",
)
# Nobody waits for what began for these reasons, whoever noticed that it was due.
NOT_AWAITED_WHYS = ("timer", "age", "background", "periodic", "none")
# These calls return when what they wrote is on the disk.
WAITING_CALLS = ("fsync", "fdatasync", "sync", "syncfs", "msync", "uring_fsync", "aio_fsync")
# These queue requests and return.
QUEUED_CALLS = ("io_uring", "aio", "readahead", "uring_read", "aio_read")
FLAG_AHEAD = 16  # BLOCK_FLAG_AHEAD in bpf/block/block_records.h
# While a call of the workload is held by this, it waits for what these causes send.
HOLDS = {"dirty_throttle": "writeback", "btrfs_ticket": "space reclaim", "xfs_grant_sleep": "AIL push"}
Flags = npt.NDArray[np.bool_]


def awaited_events(event: Event) -> I64:
    """Ids of the events that the workload waited for, and of those within them, in ascending order.

    Only calls of the workload are recorded, so an event with the call that asked is the workload's.
    """
    asked = ~event.asker_call.is_("none")
    is_awaited = event.kind.is_in(AWAITED_KINDS) & ~event.why.is_in(NOT_AWAITED_WHYS)
    is_awaited |= event.kind.is_("writeback") & event.why.is_("sync")
    is_awaited &= asked
    ids: I64 = np.unique(event.event_id[is_awaited])
    while True:
        within = np.isin(event.parent_id, ids) & (event.parent_id > 0) & ~np.isin(event.event_id, ids)
        if not within.any():
            return ids
        ids = np.unique(np.concatenate((ids, event.event_id[within])))


@dataclass(frozen=True)
class Hold:
    """Begins and ends of the times in which the workload was held, in order; rows that then count."""

    begin: I64
    end: I64
    is_cause: Flags  # by code of the column why


def holds(event: Event, whys: Categorical) -> list[Hold]:
    """The times in which calls of the workload were held, by what held them."""
    found = []
    for kind, why in HOLDS.items():
        rows = np.flatnonzero(event.kind.is_(kind) & ~event.asker_call.is_("none"))
        is_cause = np.array([label.split(",")[0] == why for label in whys.labels])
        if rows.size and is_cause.any():
            found.append(Hold(*joined(event.start_ns[rows], event.end_ns[rows]), is_cause))
    return found


class Waits:
    """Finds for rows of the block table what the workload waited for."""

    def __init__(self, block: Block, event: Event | None, passed: I64) -> None:
        """passed: rows of the block table whose end a worker passed on to the workload."""
        self._block = block
        self._passed = np.zeros(block.rows, dtype=np.bool_)
        self._passed[passed] = True
        self._waited = block.read_categorical("waited")
        self._is_waiting_call = _waiting_calls(block)
        self._event_id = block.read("event_id")
        self._whys = block.read_categorical("why")
        self._awaited = awaited_events(event) if event is not None else np.zeros(0, np.int64)
        self._holds = holds(event, self._whys) if event is not None and self._whys is not None else []

    def of(self, at: slice) -> npt.NDArray[np.int8]:
        """The index in WAITED of each of these rows."""
        by_event = self._is_waiting_call[at].copy()
        if self._event_id is not None and self._awaited.size:
            by_event |= np.isin(self._event_id[at], self._awaited)
        for hold in self._holds:
            assert self._whys is not None
            complete = self._block.complete_ns[at]
            place = np.maximum(np.searchsorted(hold.begin, complete, side="right") - 1, 0)
            is_held = (hold.begin[place] <= complete) & (complete <= hold.end[place])
            by_event |= hold.is_cause[self._whys.codes[at]] & is_held
        waited = np.where(by_event, EVENT, NOT_SEEN).astype(np.int8)
        waited[self._passed[at]] = PAGE
        if self._waited is not None:
            codes = self._waited.codes[at]
            for word, code in (("event", EVENT), ("completion", COMPLETION)):
                if word in self._waited.labels:
                    waited[codes == self._waited.labels.index(word)] = code
        return waited


def _waiting_calls(block: Block) -> Flags:
    """Requests that a task of the workload sent itself in a call that can't go on without them."""
    call, submitter, flags = (
        block.read_categorical("call"),
        block.read_categorical("submitter"),
        block.read("flags"),
    )
    if call is None or submitter is None:
        return np.zeros(block.rows, dtype=np.bool_)
    needed = block.op.is_("read") & ~call.is_in(("none", *QUEUED_CALLS))
    if flags is not None:
        needed &= flags & FLAG_AHEAD == 0
    synced = block.op.is_in(("write", "flush")) & call.is_in(WAITING_CALLS)
    return np.asarray((needed | synced) & submitter.is_("workload"))
