# SPDX-License-Identifier: BSD-2-Clause
"""Metadata that is written in place long after the data: when, in what series, and what it cost.

A file system with a journal, or with none, may put off writing changed metadata to its place: until the
journal needs the room (checkpoint), the log's tail must move (AIL), it is old enough (writeback), or memory
is short. By its bytes it is late by so much: the mean, over all shares of the whole, of the time when that
share of the metadata had been sent less the time when the same share of the data had been, or of the journal
where that has more bytes.

Its cost is the time of the critical path at such writes, and at other requests while the device served such
ones, if it serves one at a time (in_turn.py), else what they added to others (served.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.at_device.in_turn import InTurn
from analysis.measures.at_device.pieces import AtRequests, at_requests
from analysis.measures.at_device.served import How, excess_of
from analysis.measures.block.request_owners import OF_OTHERS, Owners
from analysis.measures.block.seeks import Distances
from analysis.measures.common.timeline import F64
from analysis.measures.critical_path.results import PathRows
from analysis.measures.critical_path.stretches import Mask
from analysis.tables.block import Block
from analysis.tables.store import I64

PUT_OFF = ("checkpoint", "AIL push", "writeback", "memory reclaim")  # begins of the column why
GAP_NS = 250_000_000  # between series
SHARES = np.linspace(0.05, 0.95, 19)  # of the bytes


@dataclass(frozen=True)
class LateMetadata:
    """Times are seconds since the workload's begin."""

    requests: int  # written in place while the workload ran
    bytes: int
    after_bytes: int  # of metadata, whyever, written after that
    whys: tuple[str, ...]  # most bytes first
    reference: str  # data or journal
    lag_s: float
    half_s: float  # half of it had been sent, with what came later
    reference_half_s: float
    series: int
    longest_start_s: float
    longest_s: float
    longest_bytes: int
    seek_share: float  # of the requests
    rising_share: float  # of the longest series' requests: further on the disk than the one before
    waited: int  # requests that the path was at
    own_ns: float  # of the roots' time
    added_ns: float  # to other requests
    added_low_ns: float
    added_high_ns: float
    weak_ns: float
    how: How
    lines: frozenset[str]

    @property
    def ns(self) -> float:
        """What it cost, of the roots' time."""
        return self.own_ns + self.added_ns


def measure_late_metadata(
    block: Block, path: PathRows, owners: Owners | None, distances: Distances | None, work: tuple[int, int]
) -> LateMetadata | None:
    """None: no metadata was put off. owners: of the disks' requests. work: begin and end of the workload."""
    at = at_requests(path)
    why = block.read_categorical("why")
    if why is None:
        return None
    is_metadata = block.op.is_("write") & block.class_.is_("metadata")
    after = is_metadata & (block.queue_ns >= work[1])
    put_off = why.is_in([label for label in why.labels if label.startswith(PUT_OFF)])
    is_late = np.asarray(is_metadata & put_off)
    if owners is not None and owners.codes is not None:
        is_late &= owners.codes != OF_OTHERS
    rows = np.flatnonzero(is_late)
    inside = rows[(block.queue_ns[rows] >= work[0]) & (block.queue_ns[rows] < work[1])]
    if not inside.size:
        return None
    sent = {
        name: np.flatnonzero(block.op.is_("write") & block.class_.is_(name)) for name in ("data", "journal")
    }
    reference = max(sent, key=lambda name: int(block.bytes[sent[name]].sum(dtype=np.int64)))
    late_s, their_s = (_when(block, one, work[0]) for one in (rows, sent[reference]))
    inside = inside[np.argsort(block.issue_ns[inside], kind="stable")]
    begins = np.flatnonzero(np.diff(block.issue_ns[inside], prepend=-2 * GAP_NS) > GAP_NS)
    ends = np.append(begins[1:], inside.size) - 1
    sizes = np.add.reduceat(block.bytes[inside].astype(np.int64), begins)
    longest = int(sizes.argmax())
    run = inside[begins[longest] : ends[longest] + 1]
    seeks = 0
    if distances is not None:
        seeks = int(np.isin(inside, distances.rows[distances.is_seek]).sum())
    is_own = (at.row >= 0) & is_late[np.maximum(at.row, 0)]
    share, low, high, how = _added(block, at, is_own, is_late)
    by_why = np.bincount(why.codes[inside], block.bytes[inside], len(why.labels))
    used = at.own[(is_own | (share > 0)) & (at.own >= 0)]
    return LateMetadata(
        requests=int(inside.size),
        bytes=int(sizes.sum()),
        after_bytes=int(block.bytes[after].sum(dtype=np.int64)),
        whys=tuple(why.labels[code] for code in np.argsort(-by_why, kind="stable") if by_why[code]),
        reference=reference,
        lag_s=float((late_s - their_s).mean()) if their_s.size else 0.0,
        half_s=float(late_s[late_s.size // 2]),
        reference_half_s=float(their_s[their_s.size // 2]) if their_s.size else 0.0,
        series=int(begins.size),
        longest_start_s=float(block.issue_ns[run[0]] - work[0]) / 1e9,
        longest_s=float(block.complete_ns[run].max() - block.issue_ns[run[0]]) / 1e9,
        longest_bytes=int(sizes[longest]),
        seek_share=seeks / inside.size,
        rising_share=float((np.diff(block.sector[run]) > 0).mean()) if run.size > 1 else 0.0,
        waited=int(np.unique(at.row[is_own]).size),
        own_ns=float(at.ns[is_own].sum()),
        added_ns=float((share * at.ns).sum()),
        added_low_ns=float((low * at.ns).sum()),
        added_high_ns=float((high * at.ns).sum()),
        weak_ns=float(at.ns[is_own & at.weak].sum()),
        how=how,
        lines=frozenset(path.causes.waited[code].cause for code in np.unique(used).tolist()),
    )


def _when(block: Block, rows: I64, start_ns: int) -> F64:
    """When each of SHARES of these requests' bytes had been sent; empty without requests."""
    if not rows.size:
        return np.zeros(0)
    rows = rows[np.argsort(block.issue_ns[rows], kind="stable")]
    sums = np.cumsum(block.bytes[rows].astype(np.float64))
    at = np.searchsorted(sums, SHARES * sums[-1])
    return np.asarray((block.issue_ns[rows[np.minimum(at, rows.size - 1)]] - start_ns) / 1e9)


def _added(block: Block, at: AtRequests, is_own: Mask, is_late: Mask) -> tuple[F64, F64, F64, How]:
    """The share of each other piece that these writes added, and its limits."""
    asked = np.unique(at.row[(at.row >= 0) & ~is_own])
    nothing = np.zeros(at.row.size)
    if not asked.size:
        return nothing, nothing, nothing, How.NOT
    is_asked = (at.row >= 0) & ~is_own
    in_turn = InTurn.of(block, np.flatnonzero(is_late & block.lasting))
    if in_turn.serves_one(block):
        served_ns = in_turn.served_ns(block.dev[np.maximum(at.row, 0)], at.begin, at.end)
        share = np.where(is_asked, served_ns / np.maximum(at.ns, 1), 0.0)
        return share, share, share, How.IN_TURN
    excess = excess_of(block, asked, ~is_late, is_late)
    index = np.minimum(np.searchsorted(asked, at.row), asked.size - 1)
    value, low, high = (
        np.where(is_asked & (asked[index] == at.row), one[index], 0.0)
        for one in (excess.share, excess.low, excess.high)
    )
    return value, low, high, excess.how
