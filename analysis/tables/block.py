# SPDX-License-Identifier: BSD-2-Clause
"""The block table: one row is one request to the device, in the order of completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.errors import ReportError, TableError
from analysis.rundir.run import Run, as_int, dig
from analysis.tables.rec import Recording
from analysis.tables.store import I64, SMALL, Categorical, Column, Ints, Stored

SECTOR_BYTES = 512
FLAG_META = 2
LATEST_NS = (1 << 63) - 1
COLUMNS = (
    Column("queue_ns", "int", "ns", "when its oldest bio (or the request) was submitted"),
    Column(
        "insert_ns",
        "int",
        "ns",
        "when its first part entered the scheduler; null: it never did",
        zero_is_null=True,
    ),
    Column("issue_ns", "int", "ns", "when it was handed to the driver"),
    Column(
        "complete_ns",
        "int",
        "ns",
        "when its last byte completed; null: its end was not seen",
        zero_is_null=True,
    ),
    Column(
        "end_by_ns",
        "int",
        "ns",
        "where complete_ns is null: it had ended by then (tag issued again, or disk idle); null: not known",
        zero_is_null=True,
        if_missing=0,
    ),
    Column("dev", "int", "major<<20|minor", "the device"),
    Column(
        "sb_dev",
        "int",
        "major<<20|minor",
        "the file system: the inode's super block, else the partition or disk it was sent to; null: unknown",
        zero_is_null=True,
        if_missing=0,
    ),
    Column("sector", "int", "512 B sectors", "first sector"),
    Column("bytes", "int", "bytes", "length; a flush has 0"),
    Column("op", "category", "", "read, write, discard, flush, ..."),
    Column("flags", "int", "bit mask", "1 sync, 2 meta, 4 fua, 8 preflush, 16 ahead, 32 prio"),
    Column("class", "category", "", "data, metadata, journal or unknown"),
    Column("ino", "int", "inode", "the file, if the first page belongs to one", zero_is_null=True),
    Column("pid", "int", "", "submitting thread, of the bio with the first sector"),
    Column("tgid", "int", "", "submitting process"),
    Column("comm", "text", "", "name of the submitting thread"),
    Column("in_workload", "bool", "", "submitted from the workload's cgroup"),
    Column(
        "submitter",
        "category",
        "",
        "workload (a task of it), kernel_thread, upper_device (a kernel thread serving a device that lies on"
        " this one), recorder (Seekmeter's), other (any other process) or unknown",
        if_missing="unknown",
    ),
    Column(
        "charged",
        "category",
        "",
        "whose memory cgroup a written-back page is charged to: workload, other or unknown",
        if_missing="unknown",
    ),
    Column("error", "int", "errno", "0: none"),
    Column("merges", "int", "", "bios merged into it, beyond the first"),
    Column("requeues", "int", "", "times the driver gave it back"),
    Column("queue_source", "category", "", "what queue_ns was taken from: bio or request"),
    # block traces have these, the recorder has not
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
        "sum over the merges from queueing to merge; null: no merge, or not all were seen",
        zero_is_null=True,
        if_missing=0,
    ),
    Column(
        "m2d_ns",
        "int",
        "ns",
        "sum over the merges from merge to (the last) issue; null as q2m_ns",
        zero_is_null=True,
        if_missing=0,
    ),
)


Chunk = npt.NDArray[np.void]


def device_number(text: object) -> int | None:
    """The number (major << 20 | minor) of "7:9", None if it is no such text."""
    major, colon, minor = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not (colon and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return None
    return int(major) << 20 | int(minor) if int(major) < 1 << 12 and int(minor) < 1 << 20 else None


def journal_device(run: Run) -> int | None:
    """The number of the device that holds nothing but the journal, None if there is none."""
    number = device_number(dig(run.facts, "filesystem", "geometry", "journal_dev"))
    return device_number(dig(run.facts, "journal_device", "dev")) if number is None else number


def _copy(chunk: Chunk) -> Chunk:
    """As bytes: numpy copies records field by field, at ten times the cost."""
    copied: Chunk = chunk.view(np.uint8).copy().view(chunk.dtype)
    return copied


def _is_one_of(codes: npt.NDArray[Any], wanted: list[int]) -> npt.NDArray[np.bool_]:
    found = np.zeros(codes.size, dtype=np.bool_)
    for code in wanted:
        found |= codes == code
    return found


def journal_marker(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Return what gives requests to the journal's place, or its device, the class journal.

    The recorder tells data from metadata by whose pages a request carries; a journal is metadata to it (with
    data=journal, data). Where the journal lies, the session has asked the file system's own tools. File data
    on the journal's device, mounted without data=journal, is two signs that disagree: its class is unknown.
    """
    code = {name: number for number, name in recording.enums.get("class", {}).items()}
    if run.text("filesystem", "name") == "nilfs2" and {"metadata", "unknown"} <= code.keys():
        return _nilfs2_marker(code, recording)
    moves = [number for number, name in recording.enums.get("op", {}).items() if name in ("read", "write")]
    extents = _journal_extents(run)
    device, main = journal_device(run), device_number(dig(run.facts, "device", "dev"))
    several = device is not None or bool(dig(run.facts, "more_devices"))
    if "journal" not in code or not (extents or device is not None):
        return lambda chunk: chunk
    starts = np.array([start for start, _ in extents], dtype=np.uint64)
    ends = np.array([end for _, end in extents], dtype=np.uint64)
    takes_data = "data=journal" in re.split(r"[\s,]", run.text("filesystem", "proc_mounts"))

    def mark(chunk: Chunk) -> Chunk:
        is_move = _is_one_of(chunk["op"], moves)
        inside = np.zeros(chunk.size, dtype=np.bool_)
        if extents:
            place = np.searchsorted(starts, chunk["sector"].astype(np.uint64), side="right") - 1
            inside = is_move & (place >= 0) & (chunk["sector"] < ends[np.maximum(place, 0)])
            if several:  # the extents are sectors of the main disk alone
                inside &= chunk["dev"] == (-1 if main is None else main)
        on_device = is_move & (chunk["dev"] == (-1 if device is None else device))
        if not (inside.any() or on_device.any()):
            return chunk
        marked = _copy(chunk)
        if not takes_data and "data" in code and "unknown" in code:
            is_data = on_device & (chunk["class"] == code["data"])
            marked["class"][is_data] = code["unknown"]
            on_device &= ~is_data
        marked["class"][inside | on_device] = code["journal"]
        return marked

    return mark


def class_marker(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Return what corrects the classes that the recorder gave, by what the session knows."""
    unmounted, journal = _unmounted_marker(recording, run), journal_marker(recording, run)
    return lambda chunk: journal(unmounted(chunk))


def _unmounted_marker(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Return what gives the requests of mkfs and fsck the class metadata: without files no file data.

    They read and write the device past its cache, from pages of their own, as a file's direct I/O does.
    """
    code = {name: number for number, name in recording.enums.get("class", {}).items()}
    mount, unmount = run.int_("clock", "mount_start_ns"), run.int_("clock", "unmount_end_ns")
    if not {"data", "metadata"} <= code.keys() or (mount is None and unmount is None):
        return lambda chunk: chunk

    def mark(chunk: Chunk) -> Chunk:
        issued = chunk["issue_ns"].astype(np.int64)
        there_is_none = (issued < (mount or 0)) | (issued > (LATEST_NS if unmount is None else unmount))
        wrong = there_is_none & (chunk["class"] == code["data"])
        if not wrong.any():
            return chunk
        marked = _copy(chunk)
        marked["class"][wrong] = code["metadata"]
        return marked

    return mark


def _nilfs2_marker(code: dict[str, int], recording: Recording) -> Callable[[Chunk], Chunk]:
    """A write of nilfs2 is a stretch of its log: pages of files behind a summary, all that was looked at."""
    writes = [number for number, name in recording.enums.get("op", {}).items() if name == "write"]

    def mark(chunk: Chunk) -> Chunk:
        mixed = _is_one_of(chunk["op"], writes) & (chunk["class"] == code["metadata"])
        marked = _copy(chunk)
        marked["class"][mixed] = code["unknown"]
        return marked

    return mark


def _journal_extents(run: Run) -> list[tuple[int, int]]:
    """[start, end) in sectors, sorted; what is not well-formed is left out."""
    found = dig(run.facts, "filesystem", "geometry", "journal")
    extents = []
    for extent in found if isinstance(found, list) else []:
        if isinstance(extent, list) and len(extent) == 2:
            start, end = as_int(extent[0]), as_int(extent[1])
            if start is not None and end is not None and 0 <= start < end:
                extents.append((start, end))
    return sorted(extents)


def _no_words(_: str) -> Categorical | None:
    """Of a table that was not read from a file."""
    return None


@dataclass(frozen=True)
class Block:
    """The block table as numpy columns (nanoseconds, bytes, sectors), as narrow as may be.

    Ten million requests are half a gigabyte: columns that few measures use are read when they are asked for,
    and let go of after that.
    """

    queue_ns: I64
    issue_ns: I64  # the last time, if it was requeued
    complete_ns: I64
    dev: Ints
    sector: I64
    bytes: Ints
    op: Categorical
    class_: Categorical
    comm: Categorical
    in_workload: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]  # ended with an error
    # queue <= issue <= complete, all after boot: other rows are in every count, not in latencies
    timed: npt.NDArray[np.bool_]
    # these, and those of which it is known only when they had ended, which complete_ns is then: for depths
    lasting: npt.NDArray[np.bool_]
    read: Callable[[str], Ints | None]  # a column by name; None: all are null
    kept: dict[str, Ints | None] = field(default_factory=dict)
    read_categorical: Callable[[str], Categorical | None] = _no_words  # one of words; None: there is no such

    def rare(self, name: str) -> Ints | None:
        """A column that is in memory from its first use until let_go(), which another thread may do."""
        try:
            return self.kept[name]
        except KeyError:
            column = self.kept[name] = self.read(name)
            return column

    @cached_property
    def queue_seen(self) -> bool:
        """Was queueing seen? Else queue_ns is issue_ns throughout (biosnoop; D and C traced alone)."""
        return any(
            bool((self.queue_ns[at] < self.issue_ns[at])[self.timed[at]].any()) for at in parts(self.rows)
        )

    def let_go(self, *names: str) -> None:
        """Give the memory of these rare columns back."""
        for name in names:
            self.kept.pop(name, None)

    def _or_zeros(self, name: str) -> Ints:
        column = self.rare(name)
        return np.zeros(self.rows, dtype=np.int32) if column is None else column

    @property
    def insert_ns(self) -> Ints:
        """0: never in a scheduler."""
        return self._or_zeros("insert_ns")

    @property
    def ino(self) -> Ints:
        """0: none."""
        return self._or_zeros("ino")

    @property
    def merges(self) -> Ints:
        """Bios merged into it, beyond the first."""
        return self._or_zeros("merges")

    @property
    def requeues(self) -> Ints:
        """Times the driver gave it back."""
        return self._or_zeros("requeues")

    @property
    def get_request_ns(self) -> Ints | None:
        """0: not known; None: of no request."""
        return self.rare("get_request_ns")

    @property
    def q2m_ns(self) -> Ints | None:
        """Sum over the request's merges; 0: not known; None: of no request."""
        return self.rare("q2m_ns")

    @property
    def m2d_ns(self) -> Ints | None:
        """Sum over the request's merges; 0: not known; None: of no request."""
        return self.rare("m2d_ns")

    def is_meta(self) -> npt.NDArray[np.bool_]:
        """Which requests the file system flagged META; read anew each time."""
        flags = self.read("flags")
        return np.zeros(self.rows, dtype=np.bool_) if flags is None else np.asarray(flags & FLAG_META != 0)

    @property
    def rows(self) -> int:
        """Number of requests."""
        return int(self.issue_ns.size)

    @property
    def moves_data(self) -> npt.NDArray[np.bool_]:
        """Reads and writes with bytes: what a seek and a throughput are counted over."""
        return np.asarray(self.op.is_in(("read", "write")) & (self.bytes > 0))


def parts(rows: int, of: int = 1 << 16) -> Iterator[slice]:
    """All rows, so many at a time: what is made of them on the way stays in a CPU's cache."""
    for first in range(0, rows, of):
        yield slice(first, min(first + of, rows))


def _rare(stored: Stored) -> Callable[[str], Ints | None]:
    def read(name: str) -> Ints | None:
        try:
            values: Ints | None = None
            if stored.any(name):
                values = stored.ints(name) if name.endswith("_ns") else stored.small_ints(name)
        except TableError as error:
            raise ReportError(f"{error}; remove tables/block.parquet and report again") from None
        return np.clip(values, 0, SMALL) if values is not None and name in ("merges", "requeues") else values

    return read


def _rare_words(stored: Stored) -> Callable[[str], Categorical | None]:
    def read(name: str) -> Categorical | None:
        try:
            return stored.categorical(name)
        except TableError as error:
            raise ReportError(f"{error}; remove tables/block.parquet and report again") from None

    return read


def _as_one(values: Ints) -> Ints:
    """A column that is the same in all rows, in the memory of one."""
    if values.size and bool((values == values[0]).all()):
        return np.broadcast_to(values[:1].copy(), values.shape)
    return values


def are_in_order(queue: I64, issue: I64, end: I64) -> npt.NDArray[np.bool_]:
    """Which requests' times are all known, and in order."""
    return np.asarray((queue > 0) & (queue <= issue) & (issue <= end))


def ends(complete: I64, bound: I64) -> I64:
    """When requests ended; where that was not seen, by when; 0, which counts at the issue: not even that."""
    return np.where(complete > 0, complete, bound)


def from_stored(stored: Stored) -> Block:
    """The columns the measures use. A request whose end was not seen counts when it had ended, see ends()."""
    queue, issue, complete = stored.ints("queue_ns"), stored.ints("issue_ns"), stored.ints("complete_ns")
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
    return Block(
        queue_ns=queue,
        issue_ns=issue,
        complete_ns=complete,
        dev=_as_one(stored.small_ints("dev")),
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
        read_categorical=_rare_words(stored),
    )
