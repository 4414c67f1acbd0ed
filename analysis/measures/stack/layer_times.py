# SPDX-License-Identifier: BSD-2-Clause
"""Time in the layers between a volume and its disks: a bio's Q2C less the time in which a disk served it.

A disk serves a bio while at least one request of this origin is issued and not complete, cut to the bio's own
time. A request made of several bios names the first one: the others have no request of their own, and are
counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.block.throughput import OPS
from analysis.measures.common.statistics import percentiles
from analysis.tables.block import Block
from analysis.tables.store import I64
from analysis.tables.top import sent_to
from analysis.tables.volume import bio_ids

DEFINITION = (
    "in the layers: Q2C of the file system's bio less the time in which at least one disk worked on a request"
    " of it; bios that share a request with an earlier bio are left out."
)


@dataclass(frozen=True)
class LayerTime:
    """One direction: means of the bios that have requests of their own, in ns."""

    op: str
    bios: int  # all whose times are known
    matched: int  # those with a request
    q2c_ns: float
    disks_ns: float
    p50_ns: int  # of the time in the layers
    p99_ns: int

    @property
    def layers_ns(self) -> float:
        """Mean time in the layers."""
        return self.q2c_ns - self.disks_ns


def measure_layer_times(block: Block | None, volume: Block | None, tops: list[int]) -> list[LayerTime]:
    """One row a direction with a matched bio. tops: numbers of the file system's volumes."""
    if block is None or volume is None or not block.rows:
        return []
    rows = np.flatnonzero(sent_to(volume, tops) & volume.timed)
    ids = bio_ids(volume)[rows]
    order = np.argsort(ids, kind="stable")
    rows, ids = rows[order], ids[order]
    disks = disk_times(block, ids, volume.queue_ns[rows], volume.complete_ns[rows])
    whole = volume.complete_ns[rows] - volume.queue_ns[rows]
    times = []
    for op in OPS:
        is_op = volume.op.is_(op)[rows] & (volume.bytes[rows] > 0)
        matched = is_op & (disks >= 0)
        count = int(np.count_nonzero(matched))
        if not count:
            continue
        in_layers = (whole - disks)[matched]
        p50, p99 = percentiles(in_layers, (50.0, 99.0))
        times.append(
            LayerTime(
                op=op,
                bios=int(np.count_nonzero(is_op)),
                matched=count,
                q2c_ns=float(whole[matched].mean()),
                disks_ns=float(disks[matched].mean()),
                p50_ns=p50,
                p99_ns=p99,
            )
        )
    return times


def disk_times(block: Block, ids: I64, begin: I64, end: I64) -> I64:
    """For each bio (ids sorted) the time in which a request of it was at a disk; -1: it has no request."""
    origin = np.asarray(block.origin, dtype=np.int64)
    requests = np.flatnonzero((origin != 0) & block.timed)
    if not ids.size or not requests.size:
        return np.full(ids.size, -1, dtype=np.int64)
    bio = np.minimum(np.searchsorted(ids, origin[requests]), ids.size - 1)
    is_known = ids[bio] == origin[requests]
    requests, bio = requests[is_known], bio[is_known]
    order = np.lexsort((block.issue_ns[requests], bio))
    requests, bio = requests[order], bio[order]
    issue = np.clip(block.issue_ns[requests], begin[bio], end[bio])
    complete = np.clip(block.complete_ns[requests], begin[bio], end[bio])
    total = np.full(ids.size, -1, dtype=np.int64)
    total[bio] = 0
    until = begin.copy()  # up to when the disks' work is counted already
    at = np.flatnonzero(np.diff(bio, prepend=-1))
    last = np.append(at[1:], bio.size)
    while at.size:  # the first request of each bio, then the second of those that have one, ...
        of = bio[at]
        total[of] += np.maximum(complete[at] - np.maximum(issue[at], until[of]), 0)
        until[of] = np.maximum(until[of], complete[at])
        has_more = at + 1 < last
        at, last = at[has_more] + 1, last[has_more]
    return total
