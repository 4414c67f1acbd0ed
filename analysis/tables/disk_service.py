# SPDX-License-Identifier: BSD-2-Clause
"""The disk_service table: what an emulated disk did for each request, and for each write of its cache.

The disk's server writes the rows itself. Times are those of the drive's model on the run's clock (TIME= is
divided out), but for reply_ns: when the server really answered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.row_time import RowTime
from analysis.tables.spec import TableSpec
from analysis.tables.store import I64, Categorical, Column, Stored

PIECES = ("overhead_ns", "seek_ns", "rotation_ns", "transfer_ns", "wait_ns")
ROUNDING_NS = 1000  # TIME= divides each piece on its own
FAR_NS = 1 << 61  # a later time is none; sums of two times stay within 63 bits


@dataclass(frozen=True)
class DiskService:
    """The disk_service table as numpy columns. Rows without sound times are not timed; their pieces are 0."""

    arrival_ns: I64  # of a destage: 0
    start_ns: I64
    end_ns: I64
    reply_ns: I64  # of a destage: 0
    overhead_ns: I64
    seek_ns: I64
    rotation_ns: I64
    transfer_ns: I64
    wait_ns: I64
    sector: I64
    dev: I64
    sectors: I64
    cylinder: I64
    queued: I64
    op: Categorical
    how: Categorical
    # 0 < start <= end, no piece is negative, and all pieces fit in between
    timed: npt.NDArray[np.bool_]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.start_ns.size)


def _read(stored: Stored) -> DiskService:
    """The columns; pieces of rows that no disk can have done are 0."""
    start, end = stored.ints("start_ns"), stored.ints("end_ns")
    timed = (start > 0) & (start <= end) & (end < FAR_NS)
    left = np.where(timed, end - np.where(timed, start, 0), 0) + ROUNDING_NS
    pieces = {name: stored.ints(name) for name in PIECES}
    for piece in pieces.values():  # each is compared with what is left: a sum could be beyond 63 bits
        timed &= (piece >= 0) & (piece <= left)
        left -= np.where(timed, piece, 0)
    for piece in pieces.values():
        piece[~timed] = 0
    return DiskService(
        arrival_ns=stored.ints("arrival_ns"),
        start_ns=start,
        end_ns=end,
        reply_ns=stored.ints("reply_ns"),
        sector=stored.ints("sector"),
        dev=stored.ints("dev"),
        sectors=stored.ints("sectors"),
        cylinder=stored.ints("cylinder"),
        queued=stored.ints("queued"),
        op=stored.categorical("op"),
        how=stored.categorical("how"),
        timed=timed,
        **pieces,
    )


TABLE = TableSpec(
    name="disk_service",
    one_row="one request that an emulated disk (DISK=hdd) served, or one write of its cache to the platter",
    collector="disk_service",
    file="raw/disk_service/disk_service.rec",
    time=RowTime("span", "start_ns", "end_ns", gives_window=False),
    is_optional=True,
    limit_rows=1 << 30,  # as of the block table
    columns=(
        Column(
            "arrival_ns", "int", "ns", "when the request reached the disk; null: a destage", zero_is_null=True
        ),
        Column("start_ns", "int", "ns", "when the disk turned to it"),
        Column("end_ns", "int", "ns", "when it is over by the model, and its reply due"),
        Column(
            "reply_ns", "int", "ns", "when the reply was really given; null: a destage", zero_is_null=True
        ),
        Column("overhead_ns", "int", "ns", "of start to end: the electronics, before the head or the bus"),
        Column("seek_ns", "int", "ns", "of start to end: the head moves and settles, or another is selected"),
        Column("rotation_ns", "int", "ns", "of start to end: until the sectors come by"),
        Column(
            "transfer_ns",
            "int",
            "ns",
            "of start to end: from or to the platter; where how is not media, over the bus, or until"
            " read-ahead has it",
        ),
        Column("wait_ns", "int", "ns", "of start to end: of a flush, until the cache is on the platter"),
        Column("sector", "int", "512 B sectors", "first sector, as the host numbers it"),
        Column("dev", "int", "major<<20|minor", "device, as in block"),
        Column("sectors", "int", "512 B sectors", "length; 0 for a flush"),
        Column("cylinder", "int", "", "cylinder of the head afterwards"),
        Column(
            "queued", "int", "requests", "requests that the disk had when it chose this one, this one too"
        ),
        Column("op", "category", "", "read, write, flush or destage (cached writes go to the platter)"),
        Column(
            "how",
            "category",
            "",
            "media (from or to the platter), cache (taken by the write cache, or read from it) or read_ahead"
            " (read before it was asked for)",
        ),
        Column("fua", "bool", "", "of a write: replied to only once it was on the platter"),
    ),
    notes=(
        "Rows are in the order of their ends, those of several disks in one file. start_ns + overhead + seek"
        " + rotation + transfer + wait is end_ns. Rows of one disk overlap where the electronics work beside"
        " the head: a write into the cache, a flush that waits for destages."
    ),
    read=_read,
)
