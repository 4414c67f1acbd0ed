# SPDX-License-Identifier: BSD-2-Clause
"""The event table: what the file system, writeback and memory reclaim did, from when to when.

What the columns hold depends on the kind; a column that a kind does not name is 0.

- jbd2_commit: sequence is the transaction's tid, count its handles, blocks and bytes went to the journal.
- jbd2_checkpoint: in the task that needed room in the journal; count: buffers written, blocks: freed.
- xfs_log_force: sequence is the log's. btrfs_commit: sequence is the transid.
- writeback: one round of a flusher; pages and bytes of all its inodes, count: the inodes.
- writeback_inode: an inode of a round that stands out. bdev_flush: the metadata of a round.
- dirty_throttle: one pause of a writer, its end as planned; pages: dirtied since the pause before.
- direct_reclaim: pages freed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analysis.rundir.recorded_time import recorded_time
from analysis.rundir.run import Run
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk, RowTime
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column

# Meaning of p1_ns to p5_ns by kind; "" where the kind has no such phase.
PHASES: Mapping[str, tuple[str, ...]] = {
    "jbd2_commit": ("asked before", "running", "locked", "flushing", "logging"),
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


def _correct(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Events that were still open end with the recording."""
    until_ns = recorded_time(run).end_ns

    def correct(chunk: Chunk) -> Chunk:
        # in place: a chunk is a buffer of its own, which the next one overwrites
        is_open = chunk["end_ns"] == 0
        start_ns = chunk["start_ns"][is_open]
        chunk["end_ns"][is_open] = start_ns if until_ns is None else start_ns.clip(until_ns, None)
        return chunk

    return correct


TABLE = TableSpec(
    name="event",
    one_row="one event of the file system, of writeback or of memory reclaim",
    file="raw/recorder/event.rec",
    # open events have no end before conversion: nothing is cut
    time=RowTime("span", "start_ns", "end_ns", is_cut=False, gives_window=False),
    is_optional=True,
    columns=(
        Column("start_ns", "int", "ns", "when it began"),
        Column(
            "end_ns",
            "int",
            "ns",
            "when it ended; of an event without a length start_ns, of one still open the recording's end",
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
        Column("why", "category", "", "timer, fsync, space, background, ...; none: the kind has no reasons"),
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
        Column("p1_ns", "int", "ns", "jbd2_commit: from the request for it to its begin"),
        Column("p2_ns", "int", "ns", "jbd2_commit: the transaction ran, before the commit"),
        Column("p3_ns", "int", "ns", "jbd2_commit: locked, waiting for open handles to end"),
        Column("p4_ns", "int", "ns", "jbd2_commit: flushing, sending the data that must go first"),
        Column("p5_ns", "int", "ns", "jbd2_commit: logging, until the commit record is on the disk"),
    ),
    notes=(
        "count, pages, blocks, bytes, sequence and the phases mean what analysis/tables/event.py says of the"
        " kind. Too many events of a kind at once are only counted, see losses.json."
    ),
    correct=_correct,
    read=columns_of(Event),
)
