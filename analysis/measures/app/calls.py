# SPDX-License-Identifier: BSD-2-Clause
"""File-system calls of the workload: count, bytes, errors and time, by call and target.

Percentiles come from histograms with 8 buckets an octave: the value shown is the middle of the bucket, right
to within 6 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.call import Call, bucket_edges_ns

DEFINITION = (
    "calls: system calls of the workload's cgroup. uring_, aio_ read, write and fsync: requests queued by"
    " io_uring and libaio, from submission to completion; io_uring, aio: the system calls that queue them."
    " mmap is a call; reads and writes of mapped files are not."
    " Percentiles: from histograms of 8 buckets per octave, within 6 %."
)


@dataclass(frozen=True)
class CallRow:
    """Totals of one call on one kind of target."""

    call: str
    target: str
    count: int
    bytes: int
    errors: int
    total_ns: int
    p50_ns: float | None
    p99_ns: float | None
    max_ns: int


def hist_percentile_ns(hist: np.ndarray, percent: float) -> float | None:
    """The middle of the bucket that holds the percentile (nearest rank); None for an empty histogram."""
    total = int(hist.sum())
    if total <= 0:
        return None
    rank = max(int(np.ceil(percent / 100 * total - 1e-9)), 1)
    bucket = int(np.searchsorted(np.cumsum(hist), rank))
    edges = bucket_edges_ns()
    if bucket < 8:
        return float(edges[bucket])
    return float(edges[bucket]) / 2 + float(edges[bucket + 1]) / 2


def _at_most(value: float | None, longest: int) -> float | None:
    """The percentile, at most the longest call: a bucket's middle may lie above it."""
    return None if value is None else min(value, float(longest)) if longest > 0 else value


def by_call(call: Call) -> list[CallRow]:
    """One row per call and target, most time first."""
    rows = []
    labels = len(call.target.labels)
    key = call.call.codes.astype(np.int64) * labels + call.target.codes
    for key_value in np.unique(key):
        of_call = key == key_value
        hist = call.hist[of_call].sum(axis=0)
        longest = int(call.max_ns[of_call].max())
        rows.append(
            CallRow(
                call=call.call.labels[int(key_value) // labels],
                target=call.target.labels[int(key_value) % labels],
                count=int(call.count[of_call].sum()),
                bytes=int(call.bytes[of_call].sum()),
                errors=int(call.errors[of_call].sum()),
                total_ns=int(call.total_ns[of_call].sum()),
                p50_ns=_at_most(hist_percentile_ns(hist, 50), longest),
                p99_ns=_at_most(hist_percentile_ns(hist, 99), longest),
                max_ns=longest,
            )
        )
    return sorted(rows, key=lambda row: (-row.total_ns, row.call, row.target))
