# SPDX-License-Identifier: BSD-2-Clause
"""Reads of files that lie in pieces on the disk, and what the disk took for each request more.

A thread that reads into the page cache waits for what it reads, but for what readahead sends at once, which
is one stretch of its file. So if it sends a read while the one before of the same file is under way, and that
does not begin where the one before ended, the file is in pieces there.

What a request takes by itself, whatever its size, is known where the disk had requests of several sizes: by
the times from one completion to the next with requests there (medians of the sizes, a line through them).
Where all have one size, it is at most what they took, and may be nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.intervals import joined
from analysis.measures.critical_path.stretches import Mask
from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.store import I64

LARGE_BYTES = 128 << 10  # a request of this size and more is worth its place
LEAST_PIECES = 32
LEAST_OF_SIZE = 8  # requests
MOST_ROWS = 1 << 21  # of more, none is looked for: it would take seconds


@dataclass(frozen=True)
class Fragments:
    """Spans of time in which pieces were read, and what these took more than whole stretches had."""

    begin: I64
    end: I64
    more_ns: I64  # of each span: requests beyond those of whole stretches, at each_ns
    requests: int  # that read a piece
    bytes: int
    needed: int  # requests for as many bytes if each had the size of the largest, or 128 KiB
    each_ns: float  # what a request takes whatever its size
    error_ns: float  # standard error of each_ns
    is_most: bool  # each_ns is what such a request took, bytes and all: no more is known


def fragments_of(block: Block, is_buffered_read: Mask, pid: I64 | None, ino: I64 | None) -> Fragments | None:
    """Pieces that were read into the page cache. None: too few, or what a request takes is not known."""
    rows = np.flatnonzero(is_buffered_read & block.lasting)
    if pid is None or ino is None or not LEAST_PIECES <= rows.size <= MOST_ROWS:
        return None
    rows = rows[ino[rows] > 0]
    order = rows[np.lexsort((block.queue_ns[rows], ino[rows], pid[rows], block.dev[rows]))]
    follows = np.zeros(order.size, dtype=np.bool_)
    if not order.size:
        return None
    follows[1:] = block.queue_ns[order[1:]] < block.complete_ns[order[:-1]]
    for column in (block.dev[:], pid, ino):
        follows[1:] &= column[order[1:]] == column[order[:-1]]
    size = np.asarray(block.bytes[order], dtype=np.int64)
    end = block.sector[order] + size // SECTOR_BYTES
    is_apart = follows.copy()
    is_apart[1:] &= block.sector[order[1:]] != end[:-1]
    if np.count_nonzero(is_apart) < LEAST_PIECES:
        return None
    took = _each(block, block.dev[order[is_apart]][0], block.op.codes[order[is_apart]][0])
    if took is None:
        return None
    each_ns, error_ns, is_most = took
    chain = np.cumsum(~follows) - 1
    count = np.bincount(chain)
    largest = max(int(size.max()), LARGE_BYTES)
    needed = np.maximum(np.ceil(np.bincount(chain, size) / largest), 1)
    # adjacent requests are as many as they are, in pieces or not
    apart = np.bincount(chain, is_apart)
    beyond = np.minimum(np.maximum(count - needed, 0), apart)
    first = np.full(count.size, np.iinfo(np.int64).max)
    last = np.zeros(count.size, dtype=np.int64)
    np.minimum.at(first, chain, block.queue_ns[order])
    np.maximum.at(last, chain, block.complete_ns[order])
    mine = np.flatnonzero(beyond > 0)
    if not mine.size:
        return None
    begin, until = joined(first[mine], last[mine])
    span = np.searchsorted(begin, first[mine], "right") - 1
    in_pieces = np.isin(chain, mine)
    return Fragments(
        begin=begin,
        end=until,
        more_ns=np.bincount(span, beyond[mine] * each_ns).astype(np.int64),
        requests=int(np.count_nonzero(in_pieces)),
        bytes=int(size[in_pieces].sum()),
        needed=int(needed[mine].sum()),
        each_ns=each_ns,
        error_ns=error_ns,
        is_most=is_most,
    )


def _each(block: Block, dev: int, op: int) -> tuple[float, float, bool] | None:
    """What a request takes whatever its size, its standard error, and whether it is only at most that."""
    rows = np.flatnonzero(block.lasting & (block.dev[:] == dev))
    order = rows[np.argsort(block.complete_ns[rows], kind="stable")]
    complete, issue = block.complete_ns[order], np.sort(block.issue_ns[rows])
    took = (complete - np.maximum(np.concatenate(([0], complete[:-1])), issue)).astype(np.float64)
    # only behind another: the first one after an idle time has all of its latency
    behind = np.concatenate(([False], issue[1:] <= complete[:-1])) & (block.op.codes[order] == op)
    size = np.asarray(block.bytes[order], dtype=np.int64)
    sizes, count = np.unique(size[behind], return_counts=True)
    sizes, count = sizes[count >= LEAST_OF_SIZE], count[count >= LEAST_OF_SIZE]
    if not sizes.size:
        return None
    medians, errors = np.zeros(sizes.size), np.zeros(sizes.size)
    for i, one in enumerate(sizes.tolist()):
        mine = took[behind & (size == one)]
        low, medians[i], high = np.quantile(mine, (0.25, 0.5, 0.75))
        errors[i] = max((high - low) / 1.35 * 1.25 / np.sqrt(mine.size), 1.0)  # of a median, if normal
    if sizes.size == 1:
        return float(medians[0]), float(errors[0]), True
    weight = 1 / errors**2
    x = sizes.astype(np.float64)
    mean_x, mean_y = np.average(x, weights=weight), np.average(medians, weights=weight)
    spread = float((weight * (x - mean_x) ** 2).sum())
    slope = max(float((weight * (x - mean_x) * (medians - mean_y)).sum()) / spread, 0.0)
    each = float(mean_y - slope * mean_x)
    error = float(np.sqrt(1 / weight.sum() + mean_x**2 / spread))
    return (each, error, False) if each > 2 * error else None
