# SPDX-License-Identifier: BSD-2-Clause
"""The block table: one row is one request to the device, in the order of completion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64, Column, Stored, Words

SECTOR_BYTES = 512
COLUMNS = (
    Column("queue_ns", "int", "ns", "when the bio (or the request) was submitted"),
    Column("insert_ns", "int", "ns", "when it entered the scheduler; null: it never did", zero_is_null=True),
    Column("issue_ns", "int", "ns", "when it was handed to the driver"),
    Column("complete_ns", "int", "ns", "when its last byte completed"),
    Column("dev", "int", "major<<20|minor", "the device"),
    Column("sector", "int", "512 B sectors", "first sector"),
    Column("bytes", "int", "bytes", "length; a flush has 0"),
    Column("op", "word", "", "read, write, discard, flush, ..."),
    Column("flags", "int", "bit mask", "1 sync, 2 meta, 4 fua, 8 preflush, 16 ahead, 32 prio"),
    Column("class", "word", "", "data, metadata, journal or unknown"),
    Column("ino", "int", "inode", "the file, if the first page belongs to one", zero_is_null=True),
    Column("pid", "int", "", "submitting thread"),
    Column("tgid", "int", "", "submitting process"),
    Column("comm", "text", "", "name of the submitting thread"),
    Column("in_workload", "bool", "", "submitted from the workload's cgroup"),
    Column("error", "int", "errno", "0: none"),
    Column("requeues", "int", "", "times the driver gave it back"),
    Column("queue_source", "word", "", "what queue_ns was taken from: bio or request"),
)


@dataclass(frozen=True)
class Block:
    """The block table as numpy columns (nanoseconds, bytes, sectors)."""

    queue_ns: I64
    issue_ns: I64
    complete_ns: I64
    dev: I64
    sector: I64
    bytes: I64
    op: Words
    class_: Words
    comm: Words
    in_workload: npt.NDArray[np.bool_]
    error: I64
    requeues: I64
    # queue <= issue <= complete, all after boot: other rows are in every count, not in latencies
    timed: npt.NDArray[np.bool_]

    @property
    def rows(self) -> int:
        """Number of requests."""
        return int(self.issue_ns.size)

    @property
    def moves_data(self) -> npt.NDArray[np.bool_]:
        """Reads and writes with bytes: what a seek and a throughput are counted over."""
        return np.asarray(self.op.is_in(("read", "write")) & (self.bytes > 0))


def from_stored(stored: Stored) -> Block:
    """The columns the measures use. A request whose end was not seen counts at its issue, or queueing."""
    queue, issue, complete = stored.ints("queue_ns"), stored.ints("issue_ns"), stored.ints("complete_ns")
    timed = (queue > 0) & (queue <= issue) & (issue <= complete)
    issue = np.where(issue > 0, issue, np.maximum(queue, 0))
    return Block(
        queue_ns=queue,
        issue_ns=issue,
        complete_ns=np.maximum(complete, issue),
        dev=stored.ints("dev"),
        sector=stored.ints("sector"),
        bytes=stored.ints("bytes"),
        op=stored.words("op"),
        class_=stored.words("class"),
        comm=stored.words("comm"),
        in_workload=stored.bools("in_workload"),
        error=stored.ints("error"),
        requeues=stored.ints("requeues"),
        timed=np.asarray(timed),
    )
