# SPDX-License-Identifier: BSD-2-Clause
"""The event table: what the file system, writeback and memory reclaim did, from when to when, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import RowTime
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column

# Meaning of p1_ns to p5_ns by kind. The last three of jbd2_commit sum to its length, and xfs_log_force's.
PHASES: Mapping[str, tuple[str, ...]] = {
    "btrfs_commit": ("preparing", "waiting for writers", "blocking", "writing", "ending"),
    "jbd2_commit": ("asked before", "running", "locked", "flushing", "logging"),
    "xfs_log_force": ("to the log", "log write"),
}


@dataclass(frozen=True)
class Event:
    """The event table as numpy columns."""

    start_ns: I64
    end_ns: I64
    event_id: I64
    parent_id: I64
    kind: Categorical
    why: Categorical
    asker_tid: I64
    asker_call: Categorical
    tid: I64
    comm: Categorical
    dev: I64
    sequence: I64
    ino: I64
    pages: I64
    blocks: I64
    bytes: I64
    count: I64
    p1_ns: I64
    p2_ns: I64
    p3_ns: I64
    p4_ns: I64
    p5_ns: I64
    is_open: npt.NDArray[np.bool_]


TABLE = TableSpec(
    name="event",
    one_row="one event of the file system, of writeback or of memory reclaim",
    collector="events",
    file="raw/recorder/event.rec",
    time=RowTime("span", "start_ns", "end_ns", gives_window=False),
    is_optional=True,
    columns=(
        Column("start_ns", "int", "ns", "when it began"),
        Column(
            "end_ns",
            "int",
            "ns",
            "when it ended; start_ns if the kernel shows one moment only; of dirty_throttle the planned end"
            " of the pause; of an event that is open the end of the recording",
        ),
        Column("event_id", "int", "", "number of the event, as in the table block; not in order"),
        Column(
            "parent_id",
            "int",
            "",
            "event in which the task was already; null: none",
            zero_is_null=True,
        ),
        Column("kind", "category", "", "jbd2_commit, xfs_log_force, writeback, dirty_throttle, ..."),
        Column(
            "why",
            "category",
            "",
            "timer, fsync, sync, syncfs, umount, space, size (a handle did not fit), checkpoint (met a"
            " buffer of the running transaction), age, synchronous, background, periodic, vmscan, foreign,"
            " laptop, fs_free_space, pinned, stale, discard, cleaner, asked (by another call), memory,"
            " memcg, miss, ahead, more (no name here), unknown; none: the kind has no reasons",
        ),
        Column("asker_tid", "int", "", "thread for which it is done; null: not known", zero_is_null=True),
        Column("asker_call", "category", "", "that thread's call, if it is the workload's; else none"),
        Column("tid", "int", "", "thread that does it"),
        Column("comm", "text", "", "name of that thread"),
        Column("dev", "int", "major<<20|minor", "the file system's; null: not known", zero_is_null=True),
        Column("sequence", "int", "", "number of the transaction or place in the log"),
        Column("ino", "int", "inode", "inode; null: none", zero_is_null=True),
        Column("pages", "int", "pages", "pages written, dirtied or freed"),
        Column("blocks", "int", "blocks", "blocks written or freed"),
        Column("bytes", "int", "bytes", "the same in bytes"),
        Column("count", "int", "", "handles, buffers, inodes or items"),
        Column("p1_ns", "int", "ns", "jbd2_commit: asked before; xfs_log_force: to the log"),
        Column("p2_ns", "int", "ns", "jbd2_commit: running, before it; xfs_log_force: log write"),
        Column("p3_ns", "int", "ns", "jbd2_commit: locked, waiting for open handles to end"),
        Column("p4_ns", "int", "ns", "jbd2_commit: flushing, sending the data that must go first"),
        Column("p5_ns", "int", "ns", "jbd2_commit: logging, until the commit record is on the disk"),
        Column("is_open", "bool", "", "it had not ended when the recording ended"),
    ),
    notes=(
        "jbd2_commit: `sequence` transaction, `count` handles, `blocks` and `bytes` written to the journal."
        " p1 request delay (asked to begin) and p2 running (age of the transaction) lie before the event; p3"
        " locked (waits for open handles), p4 flushing (submits ordered data) and p5 logging (waits for data"
        " and log) sum to its length. Why: the asker is the task that woke the journal's thread; without"
        " one, an fsync whose file waits for this transaction.\n"
        "jbd2_checkpoint: in the task that needs room, until the journal's tail has moved or the task has"
        " its handle; `count` buffers written, `blocks` freed in the journal, `sequence` last transaction"
        " dropped. jbd2_fast_commit: `blocks`.\n"
        "xfs_log_force: `sequence` 0 = the whole log; p1 to the log (until it waits for a log buffer) and p2"
        " log write (until those who wait for that buffer are woken) sum to its length. A force that waits"
        " for no buffer, and each on kernels that do not show these waits (5.10), is one moment."
        " xfs_grant_sleep: `bytes` wanted. xfs_cil_wait: one moment. xfs_ail_push: `count` items pushed,"
        " `blocks` items that were pinned; a run of items less than 20 ms apart, of at most 0.1 s.\n"
        "btrfs_commit: `sequence` transaction, phases only where the kernel (7.2) reports each state; the"
        " begin leaves out waits for the commit before. btrfs_ticket: a wait for `bytes`. btrfs_flush_space:"
        " one moment, after a step; `sequence` number of enum btrfs_flush_state.\n"
        "writeback: one round of a flusher; `pages` as it counts them (Btrfs: a large folio as one);"
        " `count` inodes. writeback_inode: an inode of a round with 64 pages or more, or of 1 ms or more;"
        " the others are only in their round. bdev_flush: the inode of a block device, which has ext4's"
        " metadata. dirty_throttle: `pages` dirtied before the pause. direct_reclaim: `pages` freed."
        " lazy_init: one moment, after block group `sequence`. discard: `blocks` from block `sequence`.\n"
        "readahead: one moment; `pages` of the window from page `sequence` of the file; of many at once a"
        " part.\n"
        "The table event_kind says which kinds the kernel showed. A kind of which too many come at once is"
        " recorded in part, and the rest is counted in losses.json."
    ),
    read=columns_of(Event),
)
