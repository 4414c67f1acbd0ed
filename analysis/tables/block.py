# SPDX-License-Identifier: BSD-2-Clause
"""The block table: one row per request to the device, in the order of completion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.errors import ReportError, TableError
from analysis.origins.rules import rules_digest
from analysis.origins.why import derive_why
from analysis.rundir.run import Run
from analysis.tables import rows as table_rows
from analysis.tables.block_class import correct_classes
from analysis.tables.block_event import join_events
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk, RowTime
from analysis.tables.spec import TableSpec
from analysis.tables.store import I64, SMALL, Categorical, Column, Ints, Stored

SECTOR_BYTES = 512
CLASS_MEANING = (
    "data, metadata, journal, unknown, parity, or volume (its own: resync, superblocks, promotion)"
)
WHY = Column(
    "why",
    "category",
    "",
    "why it was sent, by the rules of analysis/origins: a call of the submitter (fsync()), an event"
    " with its reason (commit, timer), a kernel thread's work, or unknown",
    if_missing="unknown",
    is_derived=True,
)
CGROUP_FROM = Column(
    "cgroup_from",
    "category",
    "",
    "what names the cgroup: task (the submitter's), or, as a kernel thread submitted it, bio (its block"
    " cgroup: cgroup2 with the io controller) or page (the memory cgroup that its first page is charged to)",
    if_missing="task",
)
# struct block_why in bpf/block/block_records.h
WHY_COLUMNS = (
    Column(
        "call",
        "category",
        "",
        "the submitter's call on a file, or kind of page fault; none: not of the workload, or none yet",
        if_missing="none",
    ),
    Column(
        "call_state",
        "category",
        "",
        "whether the submitter was in that call: open, over (the last close of a file follows it), exit (the"
        " thread exits), none, or unknown (the kernel keeps no data with a thread)",
        if_missing="none",
    ),
    Column(
        "event_id",
        "int",
        "",
        "event that the submitter worked for, as in the table event; null: none",
        zero_is_null=True,
        if_missing=0,
    ),
    Column("event_kind", "category", "", "kind of that event, or none", if_missing="none"),
    Column(
        "work_id",
        "int",
        "",
        "function of the work item that a kworker executed, as in the table function; null: no kworker",
        zero_is_null=True,
        if_missing=0,
    ),
    Column(
        "end_io_id",
        "int",
        "",
        "function that the end of the bio calls (bi_end_io), as in the table function; of a buffer's bio the"
        " buffer's, of a btrfs bio that of its container; null: not known",
        zero_is_null=True,
        if_missing=0,
    ),
    Column(
        "in_transaction",
        "bool",
        "",
        "the submitter was in a transaction of its file system (journal_info: ext4, btrfs, reiserfs, nilfs2)",
        if_missing=False,
    ),
)
FLAG_META = 2  # BLOCK_FLAG_META in bpf/block/block_records.h
# in the order that reports list them; a volume's own (resync, superblocks) and parity are no file system's
CLASSES = ("data", "metadata", "journal", "unknown", "volume", "parity")
OWN = " (Seekmeter)"  # appended to the comm of Seekmeter's own processes
RECORDER = "recorder"  # the submitter of Seekmeter's own requests


def _no_categorical(_: str) -> Categorical | None:
    """No rare columns: the table was not read from a file."""
    return None


@dataclass(frozen=True)
class Block:
    """The block table as numpy columns (nanoseconds, bytes, sectors), as narrow as the values allow.

    The volume table is one, too: a bio is never issued, so its issue_ns is its queue_ns.
    Ten million requests are half a gigabyte. Columns that few measures use are read on first use, and
    released by let_go().
    """

    queue_ns: I64
    issue_ns: I64  # the last issue of a request that was requeued
    complete_ns: I64
    dev: Ints
    sector: I64
    bytes: Ints
    op: Categorical
    class_: Categorical
    comm: Categorical
    in_workload: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]  # ended with an error
    # 0 < queue <= issue <= complete. Other rows are in every count, but not in latencies.
    timed: npt.NDArray[np.bool_]
    # timed, or with only a bound of the completion, which complete_ns then is: for queue depths
    lasting: npt.NDArray[np.bool_]
    read: Callable[[str], Ints | None]  # a column by name; None: null in every row
    kept: dict[str, Ints | None] = field(default_factory=dict)
    read_categorical: Callable[[str], Categorical | None] = _no_categorical  # None: no such column

    def rare(self, name: str) -> Ints | None:
        """A column that stays in memory from its first use until let_go(), which another thread may call."""
        try:
            return self.kept[name]
        except KeyError:
            column = self.kept[name] = self.read(name)
            return column

    @cached_property
    def queue_seen(self) -> bool:
        """Whether queueing was recorded. If not (biosnoop; only D and C traced) queue_ns equals issue_ns."""
        return any(
            bool((self.queue_ns[at] < self.issue_ns[at])[self.timed[at]].any()) for at in parts(self.rows)
        )

    def let_go(self, *names: str) -> None:
        """Release the memory of these rare columns."""
        for name in names:
            self.kept.pop(name, None)

    def _or_zeros(self, name: str) -> Ints:
        column = self.rare(name)
        return np.zeros(self.rows, dtype=np.int32) if column is None else column

    @property
    def insert_ns(self) -> Ints:
        """When the request entered the scheduler; 0: never."""
        return self._or_zeros("insert_ns")

    @property
    def ino(self) -> Ints:
        """Inode of the first page; 0: none."""
        return self._or_zeros("ino")

    @property
    def merges(self) -> Ints:
        """Bios merged into the request, beyond the first."""
        return self._or_zeros("merges")

    @property
    def requeues(self) -> Ints:
        """Times the driver returned the request to the queue."""
        return self._or_zeros("requeues")

    @property
    def get_request_ns(self) -> Ints | None:
        """When the request was allocated (G); 0: not known; None: not known of any request."""
        return self.rare("get_request_ns")

    @property
    def q2m_ns(self) -> Ints | None:
        """Queue to merge, summed over the request's merges; 0: not known; None: not known of any request."""
        return self.rare("q2m_ns")

    @property
    def m2d_ns(self) -> Ints | None:
        """Merge to issue, summed over the request's merges; 0: not known; None: not known of any request."""
        return self.rare("m2d_ns")

    @property
    def origin(self) -> Ints:
        """Bio of the top volume that this row serves, by its bio_id; 0: none, or the row is that bio."""
        return self._or_zeros("origin")

    @property
    def origin_dev(self) -> Ints:
        """Top volume of that bio; 0: none."""
        return self._or_zeros("origin_dev")

    @property
    def parity_bytes(self) -> Ints:
        """Parity among the bytes: a raid5 disk merges data and parity into one request."""
        of_class = np.where(self.class_.is_("parity"), self.bytes, 0)
        column = self.rare("parity_bytes")
        return of_class if column is None else np.minimum(np.maximum(column, of_class), self.bytes)

    def is_meta(self) -> npt.NDArray[np.bool_]:
        """Mask of the requests that the file system flagged REQ_META; read anew at each call."""
        flags = self.read("flags")
        return np.zeros(self.rows, dtype=np.bool_) if flags is None else np.asarray(flags & FLAG_META != 0)

    @property
    def rows(self) -> int:
        """Number of requests."""
        return int(self.issue_ns.size)

    @property
    def moves_data(self) -> npt.NDArray[np.bool_]:
        """Mask of reads and writes with bytes: the requests of seeks and throughput."""
        return np.asarray(self.op.is_in(("read", "write")) & (self.bytes > 0))


def parts(rows: int, size: int = 1 << 16) -> Iterator[slice]:
    """All rows in slices of `of`: intermediate results of that size stay in a CPU's cache."""
    for first in range(0, rows, size):
        yield slice(first, min(first + size, rows))


def without_end(block: Block) -> npt.NDArray[np.intp]:
    """The rows of requests of whose end nothing is known: in flight when a window was kept."""
    bound = block.read("end_by_ns")
    complete = block.read("complete_ns")
    at = np.flatnonzero(~block.lasting)
    for ends_ns in (bound, complete):
        at = at if ends_ns is None else at[ends_ns[at] == 0]
    return at


def are_in_order(queue: I64, issue: I64, end: I64) -> npt.NDArray[np.bool_]:
    """Mask of the requests whose three times are known and in order."""
    return np.asarray((queue > 0) & (queue <= issue) & (issue <= end))


def ends(complete: I64, bound: I64) -> I64:
    """Completion times; where unknown (0) the bound; 0 where the bound is unknown, too."""
    return np.where(complete > 0, complete, bound)


def _rare(stored: Stored) -> Callable[[str], Ints | None]:
    def read(name: str) -> Ints | None:
        try:
            values: Ints | None = None
            if name in stored.columns and stored.any(name):
                values = stored.ints(name) if name.endswith("_ns") else stored.small_ints(name)
        except TableError as error:
            raise _damaged(stored, error) from None
        return np.clip(values, 0, SMALL) if values is not None and name in ("merges", "requeues") else values

    return read


def _rare_categorical(stored: Stored) -> Callable[[str], Categorical | None]:
    def read(name: str) -> Categorical | None:
        try:
            return stored.categorical(name) if name in stored.columns else None
        except TableError as error:
            raise _damaged(stored, error) from None

    return read


def _damaged(stored: Stored, error: TableError) -> ReportError:
    return ReportError(f"{error}; remove tables/{stored.name}.parquet and report again")


def _broadcast(values: Ints) -> Ints:
    """The column, in the memory of one value if all rows have the same."""
    if values.size and bool((values == values[0]).all()):
        return np.broadcast_to(values[:1].copy(), values.shape)
    return values


def _mark_own(block: Block) -> Block:
    """Append OWN to the comm of Seekmeter's own requests.

    The session is a Python program that writes back what the workload left dirty; the workload's programs may
    have the same comm.
    """
    submitter = block.read_categorical("submitter")
    if submitter is None or RECORDER not in submitter.labels:
        return block
    rows = np.flatnonzero(submitter.codes == submitter.labels.index(RECORDER))
    if not rows.size:
        return block
    own_codes, inverse = np.unique(block.comm.codes[rows], return_inverse=True)
    labels = block.comm.labels
    codes = block.comm.codes.astype(np.min_scalar_type(-len(labels) - own_codes.size))
    codes[rows] = len(labels) + inverse
    return replace(block, comm=Categorical(codes, (*labels, *(labels[code] + OWN for code in own_codes))))


def read_rows(stored: Stored, issue_column: str = "issue_ns") -> Block:
    """The columns that measures use. A request without a completion ends at its bound, or at its issue."""
    queue, issue, complete = stored.ints("queue_ns"), stored.ints(issue_column), stored.ints("complete_ns")
    bound = stored.ints("end_by_ns") if stored.any("end_by_ns") else None
    timed = np.empty(stored.rows, dtype=np.bool_)
    lasting = timed if bound is None else np.empty(stored.rows, dtype=np.bool_)
    for at in parts(stored.rows):
        q, d, c = queue[at], issue[at], complete[at]
        timed[at] = are_in_order(q, d, c)
        if bound is not None:
            c[:] = ends(c, bound[at])
            lasting[at] = are_in_order(q, d, c)
        d[:] = np.where(d > 0, d, np.maximum(q, 0))
        np.maximum(c, d, out=c)
    block = Block(
        queue_ns=queue,
        issue_ns=issue,
        complete_ns=complete,
        dev=_broadcast(stored.small_ints("dev")),
        sector=stored.ints("sector"),
        bytes=stored.small_ints("bytes"),
        op=stored.categorical("op"),
        class_=stored.categorical("class"),
        comm=stored.categorical("comm"),
        in_workload=stored.bools("in_workload"),
        failed=stored.small_ints("error") != 0,
        timed=timed,
        lasting=lasting,
        read=_rare(stored),
        read_categorical=_rare_categorical(stored),
    )
    return _mark_own(block)


def take_rows(block: Block, rows: table_rows.Rows) -> Block:
    """These requests; their rare columns, too, are read on first use."""
    read, read_categorical = block.read, block.read_categorical

    def part(name: str) -> Any:
        column = read(name)
        return None if column is None else column[rows]

    def categorical_part(name: str) -> Categorical | None:
        column = read_categorical(name)
        return None if column is None else Categorical(column.codes[rows], column.labels)

    return replace(table_rows.take(block, rows), read=part, kept={}, read_categorical=categorical_part)


def _correct(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Correct classes, and give requests the events that the recorder could not know."""
    classes, events = correct_classes(recording, run), join_events(recording, run)
    return lambda chunk: events(classes(chunk))


TABLE = TableSpec(
    name="block",
    one_row="one request to the device, in the order of completion",
    collector="block",
    file="raw/recorder/block.rec",
    time=RowTime("request", "issue_ns", "complete_ns"),
    limit_rows=1 << 30,  # memory is the limit: RLIMIT_DATA
    columns=(
        Column("queue_ns", "int", "ns", "when its oldest bio, or the request itself, was submitted (Q)"),
        Column(
            "insert_ns",
            "int",
            "ns",
            "when its first part entered the scheduler (I); null: never",
            zero_is_null=True,
        ),
        Column("issue_ns", "int", "ns", "when it was handed to the driver (D), the last time if requeued"),
        Column(
            "complete_ns",
            "int",
            "ns",
            "when its last byte completed (C); null: the completion was not seen",
            zero_is_null=True,
        ),
        Column(
            "end_by_ns",
            "int",
            "ns",
            "bound of the completion where complete_ns is null (tag issued again, or disk idle); null: none,"
            " as of a request in flight at the end of a kept window",
            zero_is_null=True,
            if_missing=0,
        ),
        Column("dev", "int", "major<<20|minor", "device"),
        Column(
            "sb_dev",
            "int",
            "major<<20|minor",
            "file system: the inode's super block, else the partition or disk of the bio; null: unknown",
            zero_is_null=True,
            if_missing=0,
        ),
        Column("sector", "int", "512 B sectors", "first sector"),
        Column("bytes", "int", "bytes", "length; 0 for a flush"),
        Column("op", "category", "", "read, write, discard, flush, ..."),
        Column("flags", "int", "bit mask", "1 sync, 2 meta, 4 fua, 8 preflush, 16 ahead, 32 prio"),
        Column("class", "category", "", CLASS_MEANING),
        Column("ino", "int", "inode", "inode of the first page; null: none", zero_is_null=True),
        Column("pid", "int", "", "thread that submitted the bio with the first sector"),
        Column("tgid", "int", "", "process of that thread"),
        Column("comm", "text", "", "name of that thread"),
        Column("in_workload", "bool", "", "submitted from the workload's cgroup"),
        Column(
            "submitter",
            "category",
            "",
            "class of that thread: workload, kernel_thread, upper_device (a kernel thread serving a device"
            " stacked on this one), recorder (Seekmeter's), other (any other process) or unknown",
            if_missing="unknown",
        ),
        Column(
            "charged",
            "category",
            "",
            "memory cgroup that a written-back page is charged to: workload, other or unknown",
            if_missing="unknown",
        ),
        Column("error", "int", "errno", "0: none"),
        Column("merges", "int", "bios", "bios merged into the request, beyond the first"),
        Column("requeues", "int", "", "times the driver returned the request to the queue"),
        Column("queue_source", "category", "", "source of queue_ns: bio or request"),
        Column(
            "origin",
            "int",
            "",
            "bio of the top volume that the request serves, see bio_id of the table volume; its class, ino,"
            " sb_dev, submitter, charged, pid, tgid, comm, in_workload and cgroup are then that bio's; null:"
            " none",
            zero_is_null=True,
            if_missing=0,
        ),
        Column(
            "origin_ns",
            "int",
            "ns",
            "when that bio was submitted; null: none",
            zero_is_null=True,
            if_missing=0,
        ),
        Column(
            "origin_dev",
            "int",
            "major<<20|minor",
            "top volume of that bio; null: none",
            zero_is_null=True,
            if_missing=0,
        ),
        Column(
            "origin_sector",
            "int",
            "512 B sectors",
            "sector of the top volume that the request's first sector serves; 0 where origin is null",
            if_missing=0,
        ),
        Column(
            "parity_bytes",
            "int",
            "bytes",
            "of bytes: parity, which a raid5 disk merges with data; all of them in class parity",
            if_missing=0,
        ),
        Column(
            "cgroup",
            "int",
            "inode",
            "cgroup (v2) that it is for, by the inode of its directory, see cgroup_from and the table cgroup;"
            " null: not known",
            zero_is_null=True,
            if_missing=0,
        ),
        CGROUP_FROM,
        *WHY_COLUMNS,
        Column(
            "below_start_us",
            "int",
            "us",
            "of a request of a loop device: from its issue until the disk below got the first part of it",
            if_missing=0,
        ),
        Column(
            "below_end_us",
            "int",
            "us",
            "the same until the last part completed there; null: not seen (flushes, disks other than loop"
            " devices with direct I/O)",
            zero_is_null=True,
            if_missing=0,
        ),
        Column(
            "waited",
            "category",
            "",
            "whether a thread of the workload waited for it: completion (woken by its end), event (for the"
            " event that it belongs to) or no (not seen: a kernel thread may have passed its end on)",
            if_missing="no",
        ),
        WHY,
        # Only block traces have the following; the recorder has not.
        Column(
            "get_request_ns",
            "int",
            "ns",
            "when the request was allocated (G); null: not known",
            zero_is_null=True,
            if_missing=0,
        ),
        Column(
            "q2m_ns",
            "int",
            "ns",
            "queue to merge, summed over the merges; null: no merge, or not all were seen",
            zero_is_null=True,
            if_missing=0,
        ),
        Column(
            "m2d_ns",
            "int",
            "ns",
            "merge to the (last) issue, summed over the merges; null as q2m_ns",
            zero_is_null=True,
            if_missing=0,
        ),
    ),
    notes="get_request_ns, q2m_ns and m2d_ns come from imported block traces only.",
    correct=_correct,
    derive=derive_why,
    made_by=rules_digest(),
    read=read_rows,
    take=take_rows,
)
