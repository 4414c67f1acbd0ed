# SPDX-License-Identifier: BSD-2-Clause
"""Where do requests spend their lives, by direction, class, process and size? How many are merged, requeued?

Q2I: queue to insertion into the scheduler or, without one, the list of what waits for the driver; I2D: from
there to issue. Both exist only for requests that were inserted. Q2D, D2C and Q2C as in latency.py. A requeued
request is issued more than once: D is the last time, so what the driver gave back counts as waiting (Q2D),
not as the device's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.measures.timeline import F64
from analysis.tables.block import Block
from analysis.tables.store import I64, Words

DEFINITION = (
    "means; p99: of Q2C, exact. Q2I: queue to insertion into the scheduler (or the list of what waits for the"
    " driver), I2D: insertion to issue, over the requests that were inserted, ins. %; Q2D, D2C, Q2C: see"
    " request latency. A requeued request's D is its last issue. class, size: reads and writes; a process:"
    " all of its name."
)
NOT_RECORDED = (
    "Q2G, G2I (waiting for a request to be free), Q2M, M2D (of the merged bios) and plug sizes: the block"
    " table has no such columns, so they can't be told"
)
TOP = 8
BUCKETS = 64 * 128  # of _bucket: 2**63 ns has the last
CHUNK = 1 << 20  # rows at a time, so that little memory is needed beyond the table's
SIZES = (
    (4 << 10, "to 4 KiB"),
    (16 << 10, "to 16 KiB"),
    (64 << 10, "to 64 KiB"),
    (256 << 10, "to 256 KiB"),
    (1 << 20, "to 1 MiB"),
)


@dataclass(frozen=True)
class LifeRow:
    """Means (ns) over one group of requests whose times are in order; None where no request has the stage."""

    label: str
    requests: int
    inserted: int
    q2i_ns: float | None
    i2d_ns: float | None
    q2d_ns: float
    d2c_ns: float
    q2c_ns: float
    q2c_p99_ns: int


@dataclass(frozen=True)
class MergeRow:
    """Merging and requeueing of one op's requests."""

    op: str
    requests: int
    merged_requests: int  # made of more than one bio
    merges: int  # bios beyond each request's first
    most_merges: int
    requeued_requests: int
    requeues: int


@dataclass(frozen=True)
class Life:
    """The rows of each way of grouping: direction, class, process, size."""

    groups: dict[str, list[LifeRow]]
    more_processes: int  # names beyond the top ones, together in the last row
    merges: list[MergeRow]

    @property
    def any_inserted(self) -> bool:
        """Whether any request went through a scheduler."""
        return any(row.inserted for row in self.groups["direction"])


def _renamed(words: Words, labels: list[str]) -> npt.NDArray[np.int16]:
    """Each row's index in labels; what is not among them gets the next number."""
    number = np.full(max(len(words.labels), 1), len(labels), dtype=np.int16)
    for i, label in enumerate(words.labels):
        if label in labels:
            number[i] = labels.index(label)
    return np.asarray(number[words.codes])


@dataclass
class _Sums:
    """Sums per code over the rows seen so far; a last code, of rows outside the grouping, is not shown."""

    labels: list[str]
    codes: npt.NDArray[np.int16]  # of every row
    inserted: F64
    q2i: F64
    i2d: F64
    q2d: F64
    d2c: F64
    histogram: I64  # of Q2C: labels x BUCKETS


def _sums(labels: list[str], codes: npt.NDArray[np.integer[Any]]) -> _Sums:
    many = len(labels) + 1
    inserted, q2i, i2d, q2d, d2c = np.zeros((5, many))
    histogram = np.zeros(many * BUCKETS, dtype=np.int64)
    return _Sums(labels, codes.astype(np.int16), inserted, q2i, i2d, q2d, d2c, histogram)


def _bucket(ns: I64) -> I64:
    """128 buckets an octave, in order: the first bits of the number as a 32-bit float."""
    bits = (ns + 1).astype(np.float32).view(np.int32)
    return np.asarray((bits >> 16) - (127 << 7), dtype=np.int64)


@dataclass(frozen=True)
class _Part:
    """The stages of some rows whose times are in order; float64 is exact to 2**53 ns."""

    rows: slice
    timed: npt.NDArray[np.bool_]
    q2d: F64
    d2c: F64
    entered: I64  # those that were inserted, as indices into the others
    q2i: F64
    i2d: F64
    bucket: I64


def _parts(block: Block) -> Iterator[_Part]:
    for low in range(0, block.rows, CHUNK):
        rows = slice(low, low + CHUNK)
        timed = block.timed[rows]
        queue, insert = block.queue_ns[rows][timed], block.insert_ns[rows][timed]
        issue, complete = block.issue_ns[rows][timed], block.complete_ns[rows][timed]
        entered = np.flatnonzero((insert > 0) & (queue <= insert) & (insert <= issue))
        insert = insert[entered]
        yield _Part(
            rows,
            timed,
            (issue - queue).astype(np.float64),
            (complete - issue).astype(np.float64),
            entered,
            (insert - queue[entered]).astype(np.float64),
            (issue[entered] - insert).astype(np.float64),
            _bucket(complete - queue),
        )


def _add(sums: _Sums, part: _Part) -> None:
    code = sums.codes[part.rows][part.timed].astype(np.int64)
    many = len(sums.labels) + 1
    sums.q2d += np.bincount(code, part.q2d, many)
    sums.d2c += np.bincount(code, part.d2c, many)
    if part.entered.size:
        of = code[part.entered]
        sums.inserted += np.bincount(of, minlength=many)
        sums.q2i += np.bincount(of, part.q2i, many)
        sums.i2d += np.bincount(of, part.i2d, many)
    sums.histogram += np.bincount(code * BUCKETS + part.bucket, minlength=many * BUCKETS)


def _percentile(groupings: list[_Sums], block: Block, percent: float) -> list[list[int]]:
    """Exact, per grouping and label: the histogram says in which bucket it is, only that one is sorted."""
    targets, left = [], []
    for sums in groupings:
        counts = sums.histogram.reshape(-1, BUCKETS)
        up_to = counts.cumsum(axis=1)
        rank = np.maximum(np.ceil(percent / 100 * up_to[:, -1] - 1e-9).astype(np.int64), 1)
        target = (up_to < rank[:, None]).sum(axis=1)
        at = np.minimum(target, BUCKETS - 1)
        every = np.arange(at.size)
        left.append(rank - (up_to[every, at] - counts[every, at]))  # its rank within the bucket
        targets.append(target)
    none = np.zeros(0, dtype=np.int64)
    found: list[list[tuple[I64, I64]]] = [[(none, none)] for _ in groupings]
    for low in range(0, block.rows, CHUNK):
        part = slice(low, low + CHUNK)
        timed = block.timed[part]
        ns = (block.complete_ns[part] - block.queue_ns[part])[timed]
        bucket = _bucket(ns)
        for i, sums in enumerate(groupings):
            code = sums.codes[part][timed].astype(np.int64)
            hit = np.flatnonzero(targets[i][code] == bucket)
            found[i].append((code[hit], ns[hit]))
    values = []
    for i, sums in enumerate(groupings):
        code, ns = (np.concatenate(column) for column in zip(*found[i], strict=True))
        ns = ns[np.lexsort((ns, code))]
        size = np.bincount(code, minlength=len(sums.labels) + 1)
        first = np.cumsum(size) - size
        values.append([int(ns[f + k - 1]) if s else 0 for f, k, s in zip(first, left[i], size, strict=True)])
    return values


def _rows(sums: _Sums, p99: list[int]) -> list[LifeRow]:
    """One row a label; labels without a request are left out."""
    rows = []
    requests = sums.histogram.reshape(-1, BUCKETS).sum(axis=1)
    for i, label in enumerate(sums.labels):
        count, entered = int(requests[i]), int(sums.inserted[i])
        if count:
            rows.append(
                LifeRow(
                    label=label,
                    requests=count,
                    inserted=entered,
                    q2i_ns=float(sums.q2i[i]) / entered if entered else None,
                    i2d_ns=float(sums.i2d[i]) / entered if entered else None,
                    q2d_ns=float(sums.q2d[i]) / count,
                    d2c_ns=float(sums.d2c[i]) / count,
                    q2c_ns=float(sums.q2d[i] + sums.d2c[i]) / count,
                    q2c_p99_ns=p99[i],
                )
            )
    return rows


def merging(block: Block) -> list[MergeRow]:
    """One row an op, most frequent first."""
    rows = []
    for op in block.op.present():
        of = block.op.is_(op)
        merges, requeues = block.merges[of], block.requeues[of]
        rows.append(
            MergeRow(
                op=op,
                requests=int(merges.size),
                merged_requests=int((merges > 0).sum()),
                merges=int(merges.sum(dtype=np.int64)),
                most_merges=int(merges.max()),
                requeued_requests=int((requeues > 0).sum()),
                requeues=int(requeues.sum(dtype=np.int64)),
            )
        )
    return rows


def measure_life(block: Block) -> Life:
    """Every grouping of the block table."""
    moving = block.moves_data
    ops, classes, names = block.op.present(), block.class_.present(), block.comm.present()
    # one name more is shown rather than a row for it alone
    top = names if len(names) <= TOP + 1 else names[:TOP]
    more = len(names) - len(top)
    last = [f"{more:,} more names"] if more else []
    limits = np.array([limit for limit, _ in SIZES], dtype=np.int64)
    sizes = [*(label for _, label in SIZES), "more"]
    groupings = {
        "direction": _sums(ops, _renamed(block.op, ops)),
        "class": _sums(classes, np.where(moving, _renamed(block.class_, classes), len(classes))),
        "process": _sums([*top, *last], _renamed(block.comm, top)),
        "size": _sums(sizes, np.where(moving, np.searchsorted(limits, block.bytes), len(sizes))),
    }
    for part in _parts(block):
        for sums in groupings.values():
            _add(sums, part)
    p99 = _percentile(list(groupings.values()), block, 99.0)
    groups = {name: _rows(sums, at) for (name, sums), at in zip(groupings.items(), p99, strict=True)}
    return Life(groups, more, merging(block))
