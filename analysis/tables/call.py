# SPDX-License-Identifier: BSD-2-Clause
"""The call table: file-system calls by name, target and time bin, each row with a latency histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.row_time import bins
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Categorical, Column

BUCKETS = 256
NOT_SEEN = -1


@dataclass(frozen=True)
class Call:
    """The call table as numpy columns; hist is rows x 256."""

    bin_ns: I64
    bin_length_ns: I64  # shorter for a bin that a phase's border cuts
    call: Categorical
    target: Categorical
    count: I64
    bytes: I64
    over_bytes: I64  # NOT_SEEN: an older recording
    errors: I64
    total_ns: I64
    max_ns: I64
    hist: I64


TABLE = TableSpec(
    name="call",
    one_row="one kind of file-system call in one time bin",
    collector="calls",
    file="raw/recorder/call.rec",
    time=bins(is_clipped=False),  # only the workload's calls are recorded: none are outside
    limit_rows=1 << 21,  # a row's histogram takes 2 KB in memory
    columns=(
        Column("bin_ns", "int", "ns", "start of the time bin"),
        Column("length_ns", "int", "ns", "length of the time bin; 0: the recording's usual", if_missing=0),
        Column(
            "call",
            "category",
            "",
            "family of system calls: read, write, open, fsync, ...; or page faults on mapped files, outside a"
            " call: fault_read (it had to read), fault_write (it made a clean page dirty)",
        ),
        Column("target", "category", "", "file system: target (the one under test), elsewhere, unknown"),
        Column("count", "int", "calls", "calls that returned, or faults that ended, in this bin"),
        Column("bytes", "int", "bytes", "bytes read, written or copied; regular files only"),
        Column(
            "over_bytes",
            "int",
            "bytes",
            "of bytes: written where the file had bytes before the call; 0 of io_uring and libaio; -1: not"
            " recorded",
            if_missing=NOT_SEEN,
        ),
        Column("errors", "int", "calls", "calls that failed"),
        Column(
            "total_ns",
            "int",
            "ns",
            "time from enter to exit, summed over the calls; of a fault_write in memory until the page"
            " is dirty",
        ),
        Column("max_ns", "int", "ns", "time of the longest call"),
        Column("hist", "hist", "calls", "calls per latency bucket, 8 buckets an octave"),
    ),
    notes=(
        "Histogram bucket b of a latency: b = ns below 8 ns, else with e = floor(log2 ns)"
        " b = (e-2)*8 + ((ns >> (e-3)) & 7). A percentile read from it is exact to 1/8 of its value. Page"
        " faults that read nothing and made no clean page dirty have no row, nor have those that a call"
        " meets while it copies. Kernels without mm_filemap_fault (6.1) show a fault_read that waits for"
        " another task's read not at all."
    ),
    read=columns_of(Call),
)


def bucket_edges_ns() -> I64:
    """Lower edges of the 256 buckets and the upper edge of the last: 257 numbers, clipped to int64."""
    edges = []
    for b in range(BUCKETS + 1):
        if b < 8:
            edges.append(b)
        else:
            e = b // 8 + 2
            edges.append(min((8 + b % 8) << (e - 3), (1 << 63) - 1))
    return np.array(edges, dtype=np.int64)
