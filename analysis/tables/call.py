# SPDX-License-Identifier: BSD-2-Clause
"""The call table: one row is one kind of file-system call in one time bin, with a latency histogram.

Histogram bucket b: b = ns below 8 ns; else with e = floor(log2 ns), b = (e-2)*8 + ((ns >> (e-3)) & 7), so
8 buckets an octave: a percentile read from it is right to within one bucket, 1/8 of its lower edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.store import I64, Categorical, Column, Stored

COLUMNS = (
    Column("bin_ns", "int", "ns", "start of the time bin"),
    Column("length_ns", "int", "ns", "its length; 0: the usual one (older runs)", if_missing=0),
    Column("call", "category", "", "the system call"),
    Column("target", "category", "", "target: on the file system under test; elsewhere; unknown"),
    Column("count", "int", "calls", "calls that returned in this bin"),
    Column("bytes", "int", "bytes", "bytes moved"),
    Column("errors", "int", "calls", "calls that failed"),
    Column("total_ns", "int", "ns", "time spent in them, summed"),
    Column("max_ns", "int", "ns", "the longest"),
    Column("hist", "hist", "calls", "calls per latency bucket, 8 buckets an octave"),
)
BUCKETS = 256


@dataclass(frozen=True)
class Call:
    """The call table as numpy columns; hist is rows x 256."""

    bin_ns: I64
    call: Categorical
    target: Categorical
    count: I64
    bytes: I64
    errors: I64
    total_ns: I64
    max_ns: I64
    hist: I64
    bin_length_ns: I64  # of a bin that a phase's border cuts, shorter than of the others


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


def from_stored(stored: Stored) -> Call:
    """The columns the measures use."""
    return Call(
        bin_ns=stored.ints("bin_ns"),
        call=stored.categorical("call"),
        target=stored.categorical("target"),
        count=stored.ints("count"),
        bytes=stored.ints("bytes"),
        errors=stored.ints("errors"),
        total_ns=stored.ints("total_ns"),
        max_ns=stored.ints("max_ns"),
        hist=stored.hist("hist"),
        bin_length_ns=stored.bin_lengths_ns(),
    )
