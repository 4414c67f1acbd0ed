# SPDX-License-Identifier: BSD-2-Clause
"""What went on while the workload waited, and in the rest of its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.intervals import Bins, outside
from analysis.tables.block import Block, parts
from analysis.tables.call import Call
from analysis.tables.store import I64

LEAST_BINS = 3  # a span of fewer of the call table's bins tells nothing of the rate within


@dataclass(frozen=True)
class Rate:
    """A sum a second inside some spans of time, and in the rest of the workload's time."""

    inside: float
    outside: float | None  # None: there is no rest


def application(call: Call | None, spans: tuple[I64, I64], window: tuple[int, int], what: str) -> Rate | None:
    """Bytes or calls on the tested file system a second. what: "bytes" or "count".

    None: without calls, or if the spans are too short for the table's bins.
    """
    begin, end = spans
    if call is None or not begin.size or not call.bin_ns.size:
        return None
    length = call.bin_length_ns
    if float((end - begin).mean()) < LEAST_BINS * float(length.mean()):
        return None
    mine = call.target.is_("target")
    bins = Bins(call.bin_ns[mine], length[mine], getattr(call, what)[mine])
    inner = [(int(a), int(b)) for a, b in zip(begin, end, strict=True)]
    rest = outside(inner, *window)
    inside_s, rest_s = (sum(b - a for a, b in one) / 1e9 for one in (inner, rest))
    if not inside_s:
        return None
    return Rate(bins.over(inner) / inside_s, bins.over(rest) / rest_s if rest_s else None)


def is_inside(t_ns: I64, spans: tuple[I64, I64]) -> np.ndarray:
    """Mask of the times within spans, which ascend and do not overlap."""
    begin, end = spans
    if not begin.size:
        return np.zeros(t_ns.size, dtype=np.bool_)
    at = np.searchsorted(begin, t_ns, side="right") - 1
    return np.asarray((at >= 0) & (t_ns < end[np.maximum(at, 0)]))


def overlaps(begin_ns: I64, end_ns: I64, spans: tuple[I64, I64]) -> np.ndarray:
    """Mask of the intervals that share time with one of the spans."""
    begin, end = spans
    if not begin.size:
        return np.zeros(begin_ns.size, dtype=np.bool_)
    at = np.searchsorted(begin, end_ns, side="left") - 1  # the last span that begins before the end
    return np.asarray((at >= 0) & (end[np.maximum(at, 0)] > begin_ns))


@dataclass(frozen=True)
class Sent:
    """Bytes written by requests that were queued within some spans."""

    all_bytes: int
    by_comm: list[tuple[str, int]]  # submitter, most bytes first
    by_class: list[tuple[str, int]]


def written(block: Block | None, spans: tuple[I64, I64]) -> Sent | None:
    """What was sent to be written within the spans. None: no requests were recorded."""
    if block is None:
        return None
    comms = np.zeros(len(block.comm.labels), dtype=np.int64)
    classes = np.zeros(len(block.class_.labels), dtype=np.int64)
    is_write = block.op.is_("write")
    for at in parts(block.rows):
        mine = is_write[at] & is_inside(block.queue_ns[at], spans)
        size = np.asarray(block.bytes[at][mine], dtype=np.float64)
        comms += np.bincount(block.comm.codes[at][mine], size, comms.size).astype(np.int64)
        classes += np.bincount(block.class_.codes[at][mine], size, classes.size).astype(np.int64)

    def ranked(labels: tuple[str, ...], sums: I64) -> list[tuple[str, int]]:
        found = [(label, int(value)) for label, value in zip(labels, sums, strict=True) if value]
        return sorted(found, key=lambda one: (-one[1], one[0]))

    return Sent(int(comms.sum()), ranked(block.comm.labels, comms), ranked(block.class_.labels, classes))
