# SPDX-License-Identifier: BSD-2-Clause
"""A device that serves one request at a time: the time in which it served others' requests.

Requests of such a device end one after the other, at least the time apart that one takes: from the end before
(or its queueing) to its own end a request is served. On a device that serves many at once, ends are at
any distance, so that some come right after another's. So of the times from the end before, a low quantile
against the median tells one from the other. Simulated, 2 to 17 clients: 0.54 and more, with a service time
of 4 to 12 ms in any order; on two servers and more, and where all are served at once, 0.15 and less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.at_device.kinds import kind_of
from analysis.measures.common.timeline import F64
from analysis.tables.block import Block
from analysis.tables.store import I64

LEAST = 20  # requests of either side, or of a kind
MOST = 0.9  # of the requests that waited: of kinds that fit
LOW, LEAST_RATIO = 0.05, 0.35  # quantile, and its least ratio to the median


@dataclass(frozen=True)
class InTurn:
    """What each device would have served when, if one request after the other. Rows of the table block."""

    begin: I64  # of the service of each row; its end is complete_ns
    row_dev: I64
    devs: I64
    in_way: list[tuple[I64, I64, I64]]  # by device: begins, ends of others' service; time before each

    @classmethod
    def of(cls, block: Block, in_way: I64) -> InTurn:
        """in_way: rows of the others."""
        begin = block.queue_ns.astype(np.int64)
        devs = np.unique(block.dev[in_way])
        served = []
        for dev in devs.tolist():
            rows = np.flatnonzero((block.dev == dev) & block.lasting)
            rows = rows[np.argsort(block.complete_ns[rows], kind="stable")]
            begin[rows[1:]] = np.maximum(block.queue_ns[rows[1:]], block.complete_ns[rows[:-1]])
            theirs = rows[np.isin(rows, in_way)]
            first, end = begin[theirs], block.complete_ns[theirs]
            served.append((first, end, np.concatenate(([0], np.cumsum(end - first)))))
        return cls(begin, block.dev, devs, served)

    def fits(self, block: Block, rows: I64) -> bool:
        """Whether the device serves these requests, and enough of the others', one at a time."""
        if min(rows.size, sum(first.size for first, _, _ in self.in_way)) < LEAST:
            return False
        waited = rows[self.begin[rows] > block.queue_ns[rows]]
        if 2 * waited.size < rows.size:
            return False
        took = (block.complete_ns[waited] - self.begin[waited]).astype(np.float64)
        median = float(np.median(took))
        return median > 0 and float(np.quantile(took, LOW)) >= LEAST_RATIO * median

    def serves_one(self, block: Block) -> bool:
        """Whether the devices serve requests one at a time: by those that waited for the end of another."""
        has_waited = block.lasting & (self.begin > block.queue_ns) & np.isin(self.row_dev, self.devs)
        waited = np.flatnonzero(has_waited)
        kinds, of_row, counts = np.unique(kind_of(block, waited), return_inverse=True, return_counts=True)
        enough = np.flatnonzero(counts >= LEAST).tolist()
        fitting = sum(int(counts[kind]) for kind in enough if self.fits(block, waited[of_row == kind]))
        return kinds.size > 0 and fitting >= MOST * sum(int(counts[kind]) for kind in enough) > 0

    def served_ns(self, dev: I64, begin: I64, end: I64) -> F64:
        """In each span: while its device served the others' requests."""
        found = np.zeros(begin.size)
        for one, (first, until, before) in zip(self.devs.tolist(), self.in_way, strict=True):
            mine = np.flatnonzero(dev == one)
            found[mine] = _until(end[mine], first, until, before) - _until(begin[mine], first, until, before)
        return found

    def waited_ns(self, block: Block, rows: I64) -> F64:
        """Of each request's time from queue to completion: while its device served the others'."""
        return self.served_ns(self.row_dev[rows], block.queue_ns[rows], block.complete_ns[rows])


def _until(t: I64, begin: I64, end: I64, before: I64) -> F64:
    """Time of the spans up to each moment. before: of the spans before each, one more than there are."""
    at = np.searchsorted(begin, t, side="right") - 1
    inside = np.clip(t - begin[np.maximum(at, 0)], 0, (end - begin)[np.maximum(at, 0)])
    return np.asarray(np.where(at >= 0, before[np.maximum(at, 0)] + inside, 0), dtype=np.float64)
