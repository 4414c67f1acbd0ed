# SPDX-License-Identifier: BSD-2-Clause
"""The critical path's time at requests, split by what made it long: each instant to the first that fits.

    held         held back by a limit of a cgroup, before it was sent
    standstill   the device has requests, and completes none for much longer than it takes else
    others       a request of another program, or the share of a request's time that others' requests added
    background   the same of the file system's work that ends some time after mkfs: lazy init, discard
    queue        the request waits for a place in the device's queue, or a thread does to send one: where the
                 queue is shallow, or by write-back throttling (wbt)
    flush        a flush of the device's cache
    cut          a request that the queue's limit of its size cut out of a larger one, but for one of each
    fragments    reads of files in pieces: what the disk took for the requests that whole ones would not need
    small reads  a read of at most 32 KiB of a reader that streams through a file: it was not read ahead
    cold         a read into the page cache of what the run had not read before, unless the root waited for a
                 lock or the like, and another thread for the read
    again        another read into the page cache, most of whose pages the run had read or written before
    cold metadata  a read of metadata that the run had not read before, with the same exception
    bandwidth    other requests with the device, or queued for it: of 128 KiB or more, or many at once
    latency      other requests with the device, or queued for it
    machinery    other requests, while a worker of the loop device has them

`seeks` is no part of the sum: the share of all these that is due to the head's movement, as requests that
begin where the one before ended are faster. An emulated disk (DISK=hdd) records its seeks: then it is these,
and head_ns of each cause is what the disk did meanwhile.

Time in which switches were not recorded is on no path. A thread that reads into the page cache waits for each
such read, so the time of its own reads there is known all the same: `gap_ns`, in no other figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from analysis.measures.at_device.cut import MOST_BYTES, parts_of_one
from analysis.measures.at_device.fragments import Fragments, fragments_of
from analysis.measures.at_device.head import Head, HeadNs, head_of
from analysis.measures.at_device.kinds import kind_of
from analysis.measures.at_device.pieces import AtRequests, Part, at_requests, is_within, woken_ns
from analysis.measures.at_device.served import How, excess_of, ratio_of_means
from analysis.measures.at_device.standstill import Standstill, standstill_of
from analysis.measures.at_device.traits import (
    AHEAD,
    DISCARDS,
    Traits,
    first_reads,
    small_streaming_reads,
    submitters,
    traits_of,
)
from analysis.measures.at_device.written_for import own_dirtied
from analysis.measures.block.again import pages_read_again
from analysis.measures.block.request_owners import Owners
from analysis.measures.block.seeks import Distances
from analysis.measures.common.timeline import F64
from analysis.measures.critical_path.results import NoPath, PathResults, PathRows
from analysis.measures.critical_path.stretches import I32, NONE, Mask, Spans, spans
from analysis.measures.critical_path.sums import phase_of
from analysis.measures.device.depth_steps import in_order
from analysis.measures.device.results import DepthResults
from analysis.measures.disk.results import DisksResults
from analysis.measures.disk.states import State
from analysis.measures.threads.parts import VOLUNTARY
from analysis.measures.waits.sleeps import Sleeps
from analysis.tables import function, sched_window, thread
from analysis.tables.block import Block, parts
from analysis.tables.load import Tables
from analysis.tables.store import I64

SHALLOW = 32  # requests at once: a deeper queue keeps any disk busy
WBT = ("wbt_wait", "rq_qos_wait")
COMMIT = "commit"
QUEUE_CAUSE = "queue"  # of analysis/causes: a thread waits for a tag, or for write-back throttling
MOST_HELD = 0.5  # of the bytes written
LARGE_BYTES = 128 << 10
HELD_UP = ("lock", "frozen", "handle", "log_space", "reservation", "commit", "throttle", "reclaim")
LEAST_COMPARED = 20
READERS_SHARE = 0.95  # of the reads on the path, by one thread: that one is on the path in gaps, too
LEAST_SHARE = 0.005  # of the path's time: what is less is not looked at closely
SEEKS_COMPARED_MOST = 400_000
READS_MOST = 2_000_000


class Why(StrEnum):
    """What a piece's time is due to. All but SEEKS are parts of one sum."""

    HELD = "held"
    STANDSTILL = "standstill"
    OTHERS = "others"
    BACKGROUND = "background"
    QUEUE = "queue"
    FLUSH = "flush"
    FRAGMENTS = "fragments"
    SMALL_READS = "small reads"
    COLD = "cold"
    AGAIN = "again"
    COLD_METADATA = "cold metadata"
    CUT = "cut"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"
    MACHINERY = "machinery"
    SEEKS = "seeks"


WITH_WAKE_UPS = (Why.SMALL_READS, Why.COLD, Why.AGAIN, Why.COLD_METADATA)


@dataclass(frozen=True)
class WhyTime:
    """Time of the path with one cause. ns are of all roots, as in Ledger: Ledger.seconds() has their mean."""

    ns: float
    low_ns: float
    high_ns: float
    weak_ns: float
    queue_ns: float  # of ns: before the issue
    machinery_ns: float  # of ns: with a loop device's worker
    requests: int  # on the path, each once
    bytes: int  # of these requests
    q2d_ns: float  # their mean queue to issue
    d2c_ns: float  # their mean issue to completion
    start_ns: int
    end_ns: int
    phases: tuple[str, ...]  # that have a tenth of it or more
    line_ns: Mapping[str, float]  # of ns by cause of the roots, as the ledger's lines are named
    ops: tuple[str, ...]  # "read data", most time first
    names: tuple[str, ...]  # who submitted them
    places: tuple[str, ...]  # functions in which threads waited for them, most time first
    woken_ns: int = 0  # ready to run after it, waiting for a CPU
    gap_ns: int = 0
    head_ns: HeadNs = field(default_factory=dict)  # of ns: by what emulated disks did; empty: there are none

    @property
    def lines(self) -> frozenset[str]:
        """Keys of the ledger's lines."""
        return frozenset(self.line_ns)


@dataclass(frozen=True)
class Others:
    """The requests that others had on the same disks while the workload ran."""

    requests: int
    bytes: int
    names: tuple[str, ...]
    with_ns: float  # mean queue to completion of the workload's that met them; 0: no comparison
    without_ns: float  # of as large ones that met none
    own_ns: float  # time of the path at others' requests themselves
    is_compared: bool  # false: the share is that of the bytes, as nothing could be compared
    how: How  # NOT: nothing could be compared, or none met others

    @property
    def added_ns(self) -> float:
        """What theirs added to a request that met them."""
        return self.with_ns - self.without_ns


@dataclass(frozen=True)
class Held:
    """All requests that a limit held back, whether or not anybody waited, and what passed it meanwhile."""

    requests: int
    bytes: int
    start_ns: int  # the first was sent
    end_ns: int  # the last was
    passed_requests: int  # from the first on, up to the last: those that were not held, too
    passed_bytes: int


@dataclass(frozen=True)
class DeviceTime:
    """The split."""

    total_ns: int
    of: Mapping[Why, WhyTime]  # without those of no time
    others: Others | None
    background: Others | None
    held: Held | None
    standstill: Standstill | None
    fragments: Fragments | None
    held_written_share: float  # share of the bytes written to the disks that a limit held back
    depth_highest: int  # requests at once with the devices
    depth_on_path: float  # the mean while the path was with a device
    busy_bytes_s: float  # bytes that the devices moved per second while the path was with one
    near_ns: float  # mean D2C of requests that begin where the one before ended, as weighed for SEEKS
    far_ns: float
    seek_ns_of_mixed: float  # of SEEKS: from a request of another class (data, metadata, journal)
    seeks_of_mixed: int
    head_ns: HeadNs  # of total_ns: by what emulated disks did; empty: there are none
    at_head_ns: float  # of total_ns: at requests to these

    @property
    def slows_writers(self) -> bool:
        """Whether a limit held back most of what was written: who dirties pages then waits for the limit."""
        return self.held_written_share > MOST_HELD


def measure_device_time(
    tables: Tables,
    path: PathResults | NoPath,
    foreign: Sleeps | None,
    owners: Owners | None,
    distances: Distances | None,
    depth: DepthResults | None,
    disks: DisksResults | None = None,
) -> DeviceTime | None:
    """The split. None: no path, no requests on it, or too many pieces.

    foreign: sleeps that another process's syncs explain, requests and all. owners: of the disks' requests.
    """
    block = tables.block
    if isinstance(path, NoPath) or path.rows is None or block is None or not block.rows:
        return None
    at = at_requests(path.rows)
    if not at.ns.sum():
        return None
    highest = int(depth.at_device.highest.max(initial=0)) if depth is not None else 0
    head = head_of(disks, block, at)
    return _Split(tables, path, path.rows, block, at, foreign, owners, distances, highest, head).made()


class _Split:
    """Weights of the pieces, as they are given to one cause after the other."""

    def __init__(
        self,
        tables: Tables,
        path: PathResults,
        rows: PathRows,
        block: Block,
        at: AtRequests,
        foreign: Sleeps | None,
        owners: Owners | None,
        distances: Distances | None,
        depth_highest: int,
        head: Head | None,
    ) -> None:
        self.head = head
        self.tables, self.path, self.rows, self.block, self.at = tables, path, rows, block, at
        functions = tables.get(function.TABLE) or {}
        own_bytes = own_dirtied(tables.get(thread.TABLE))
        self.traits: Traits = traits_of(block, functions, owners, own_bytes)
        # whom a thread waits for of its own will, as for a reply, works for the workload
        voluntary = np.array([one.cause in VOLUNTARY for one in rows.causes.waited] + [False])
        is_waited_for = np.zeros(block.rows, dtype=np.bool_)
        is_waited_for[at.row[(at.row >= 0) & voluntary[at.own]]] = True
        self.is_others = self.traits.is_others | (self.traits.is_sent_by_others & ~is_waited_for)
        self.has_row = at.row >= 0
        self.row = np.maximum(at.row, 0)
        self.ns = at.ns.astype(np.float64)
        self.left = np.ones(at.row.size)
        # a commit that the root waits for serves it, whoever sends its requests, but for others' data
        is_commit = np.array([one.cause == COMMIT for one in rows.causes.waited] + [False])
        is_served = self.is_(self.is_others & ~block.class_.is_("data")) & is_commit[at.own]
        self.is_for_root = is_within(at, rows, foreign) | is_served
        self.times: dict[Why, WhyTime] = {}
        self.gaps: dict[Why, int] = {}
        self.distances = distances
        self.depth_highest = depth_highest

    def is_(self, mask: Mask) -> Mask:
        """Which pieces are at requests of the mask over the table block."""
        return np.asarray(self.has_row & mask[self.row])

    def give(self, why: Why, share: F64 | Mask, low: F64 | None = None, high: F64 | None = None) -> None:
        """Give a cause its share of what is left of each piece."""
        value = np.asarray(share, dtype=np.float64)
        given = self.left * value
        self._add(
            why, given, given if low is None else self.left * low, given if high is None else self.left * high
        )
        self.left = self.left - given

    def made(self) -> DeviceTime:
        at, block, traits = self.at, self.block, self.traits
        is_queue = at.part == Part.QUEUE
        self.give(Why.HELD, is_queue & self.is_(traits.is_held))
        standstill = None
        if self.head is None:  # else the disk itself says what it did
            standstill = standstill_of(block, traits.is_flush | block.op.is_in(DISCARDS))
        if standstill is not None:
            self.give(Why.STANDSTILL, self._share_within(standstill.spans) * (at.part != Part.MACHINERY))
        others = self._in_the_way(Why.OTHERS, self.is_others, ~self.is_for_root)
        background = self._in_the_way(
            Why.BACKGROUND, traits.is_background & ~self.is_others, np.ones_like(self.is_for_root)
        )
        bytes_s, depth = self._busy()
        # a deep queue keeps any disk busy: then the wait for a place in it is the disk's
        waits_for_place = self._waits_in(QUEUE_CAUSE)
        in_queue = is_queue | waits_for_place
        if self.depth_highest > SHALLOW:
            in_queue = self._waits_in(QUEUE_CAUSE, WBT) if depth <= SHALLOW else np.zeros_like(in_queue)
        # the kernel holds flushes back to send one for many: that wait is the flush's
        is_flush = self.is_(traits.is_flush) | self._is_labelled("flush")
        self.give(Why.QUEUE, in_queue & (~is_flush | waits_for_place))
        self.give(Why.FLUSH, is_flush)
        self._cut()
        fragments = self._fragments()
        self._reads()
        self._metadata_reads()
        seeks = self._seeks()
        is_large = self.has_row & ((block.bytes[self.row] >= LARGE_BYTES) | (depth > SHALLOW))
        is_device = (at.part == Part.DEVICE) | is_queue | waits_for_place
        self.give(Why.BANDWIDTH, is_device & is_large)
        self.give(Why.LATENCY, is_device)
        self.give(Why.MACHINERY, np.ones(at.row.size))
        return DeviceTime(
            total_ns=int(at.ns.sum()),
            of=self.times,
            others=others,
            background=background,
            held=self._held(),
            standstill=standstill,
            fragments=fragments,
            held_written_share=self._held_share(),
            depth_highest=self.depth_highest,
            depth_on_path=depth,
            busy_bytes_s=bytes_s,
            near_ns=seeks[0],
            far_ns=seeks[1],
            seek_ns_of_mixed=seeks[2],
            seeks_of_mixed=int(seeks[3]),
            head_ns=self.head.sums(np.ones(at.row.size)) if self.head is not None else {},
            at_head_ns=float((self.head.is_known * self.ns).sum()) if self.head is not None else 0.0,
        )

    def _share_within(self, times: Spans) -> F64:
        """Of each piece, the share that lies in these times."""
        at = self.at
        within = np.zeros(at.row.size)
        for begin, end in zip(times.begin.tolist(), times.end.tolist(), strict=True):
            within += np.maximum(np.minimum(at.end, end) - np.maximum(at.begin, begin), 0)
        return within / np.maximum(self.ns, 1)

    def _waits_in(self, cause: str, places: tuple[str, ...] = ("",)) -> Mask:
        """Pieces with this cause, of who slept for the request or of the root, in one of these functions.

        A thread that gets a place may wake the next: the root then waited for a place, that one for its read.
        """
        waited = self.rows.causes.waited
        has = np.array([one.cause == cause and one.place.startswith(places) for one in waited] + [False])
        return np.asarray(has[self.at.waiter] | has[self.at.own])

    def _is_labelled(self, op: str) -> Mask:
        """Of bios to volumes, by their label."""
        label = self.rows.requests.label
        is_op = np.array([text == op for text in label.labels] + [False], dtype=np.bool_)
        return np.asarray(~self.has_row & is_op[label.codes[self.at.request]])

    def _in_the_way(self, why: Why, mask: Mask, pieces: Mask) -> Others | None:
        """Give a cause, of some pieces, those at these requests, and what they added to other requests."""
        at, block = self.at, self.block
        work = self._work_rows(mask)
        if not work.size:
            self.give(why, np.zeros(at.row.size))
            return None
        itself = self.is_(mask) & pieces
        asked = np.unique(at.row[self.has_row & ~itself & pieces & (self.left > 0)])
        own = ~mask & ~self.traits.is_recorders & ~self.traits.is_held
        excess = excess_of(block, asked, own, mask)
        share, low, high = excess.share, excess.low, excess.high
        bytes_share = self._bytes_share(mask, own)
        is_compared = bool(excess.is_compared.any()) or not excess.met.any()
        if not is_compared:
            # nothing to compare with: at most the others' part of the bytes
            share = np.where(excess.met, bytes_share, 0.0)
            low, high = np.zeros(asked.size), share
        value = itself.astype(np.float64)
        lows, highs = value.copy(), value.copy()
        if asked.size:
            index = np.minimum(np.searchsorted(asked, at.row), asked.size - 1)
            is_asked = self.has_row & (asked[index] == at.row) & ~itself & pieces
            for target, source in ((value, share), (lows, low), (highs, high)):
                target[is_asked] = source[index[is_asked]]
            if excess.how == How.BEHIND:
                # who waits for a place in the queue waits for all who have one: as many as each has requests
                waits = is_asked & excess.met[index] & (at.part == Part.QUEUE)
                count = self._requests_share(mask, own)
                value[waits] = np.maximum(value[waits], count)
                highs[waits] = np.maximum(highs[waits], count)
        own_ns = float((self.left * itself * self.ns).sum())
        added_ns = float((self.left * value * ~itself * self.ns).sum())
        # a device that is never idle while a request waits delays each thread by no more than theirs took it
        took_ns = float((block.complete_ns[work] - block.issue_ns[work])[block.lasting[work]].sum())
        if added_ns > took_ns * self.path.roots:
            for target in (value, lows, highs):
                target[~itself] *= took_ns * self.path.roots / added_ns
        self.give(why, value, lows, highs)
        return Others(
            requests=int(work.size),
            bytes=int(block.bytes[work].sum(dtype=np.int64)),
            names=submitters(block.comm, work),
            with_ns=excess.with_ns if is_compared else 0.0,
            without_ns=excess.without_ns if is_compared else 0.0,
            own_ns=own_ns,
            is_compared=is_compared,
            how=excess.how,
        )

    def _work_rows(self, mask: Mask) -> I64:
        """Rows of the mask in the path's time."""
        begin, end = int(self.at.begin.min()), int(self.at.end.max())
        inside = mask & (self.block.queue_ns < end) & (self.block.complete_ns > begin)
        return np.flatnonzero(inside)

    def _bytes_share(self, mask: Mask, own: Mask) -> float:
        theirs = self.block.bytes[self._work_rows(mask)].sum(dtype=np.float64)
        ours = self.block.bytes[self._work_rows(own)].sum(dtype=np.float64)
        return float(theirs / (theirs + ours)) if theirs else 0.0

    def _requests_share(self, mask: Mask, own: Mask) -> float:
        theirs, ours = self._work_rows(mask).size, self._work_rows(own).size
        return theirs / max(theirs + ours, 1)

    def _reads(self) -> None:
        block, traits = self.block, self.traits
        is_read = self.is_(traits.is_buffered_read)
        if (self.left * is_read * self.ns).sum() < LEAST_SHARE * self.path.total_ns:
            return
        reads = np.flatnonzero(traits.is_buffered_read & ~self.is_others)
        waited = np.unique(self.at.row[is_read])
        small = np.zeros(block.rows, dtype=np.bool_)
        # of very many only those on the path, as each of such a stream is
        chosen = reads if reads.size <= READS_MOST else waited
        small[chosen] = small_streaming_reads(block, chosen)
        # and whether one of these was read before
        places = np.unique(block.sector[waited])
        index = np.minimum(np.searchsorted(places, block.sector[reads]), places.size - 1)
        same = reads[places[index] == block.sector[reads]]
        again = self._again()
        cold = np.zeros(block.rows, dtype=np.bool_)
        cold[same] = first_reads(block, same)
        cold &= ~again
        # in gaps, cold is what was read again nowhere on the path
        unread = cold.copy()
        unread[reads] |= places[index] != block.sector[reads]
        self.gaps[Why.SMALL_READS] = self._gap_ns(small, is_ahead_too=True)
        self.gaps[Why.COLD] = self._gap_ns(unread & ~small, is_ahead_too=False)
        self.give(Why.SMALL_READS, self.is_(small))
        is_held_up = self._is_held_up()
        self.give(Why.COLD, self.is_(cold) & ~is_held_up)
        self.give(Why.AGAIN, self.is_(again & traits.is_buffered_read) & ~is_held_up)

    def _cut(self) -> None:
        """Requests cut out of larger ones: what these took beyond one for each, if any size takes as long."""
        small = self.is_(self.block.bytes < MOST_BYTES)
        if (self.left * small * self.ns).sum() < LEAST_SHARE * self.path.total_ns:
            return
        share = np.where(self.has_row, 1 - 1 / parts_of_one(self.block)[self.row], 0.0)
        self.give(Why.CUT, share, np.zeros(share.size), share)

    def _fragments(self) -> Fragments | None:
        """What the path waited longer while pieces of files were read, whatever it waited for at the disk."""
        block, at = self.block, self.at
        reads = self.traits.is_buffered_read & ~self.is_others
        if (self.left * self.is_(reads) * self.ns).sum() < LEAST_SHARE * self.path.total_ns:
            return None
        found = fragments_of(block, reads, *map(block.read, ("pid", "ino")))
        if found is None:
            return None
        span = np.maximum(np.searchsorted(found.begin, at.begin, side="right") - 1, 0)
        inside = np.minimum(at.end, found.end[span]) - np.maximum(at.begin, found.begin[span])
        within = np.where(at.part != Part.MACHINERY, np.maximum(inside, 0) / np.maximum(self.ns, 1), 0.0)
        within = np.minimum(within, 1.0)
        # of all roots: each may have waited for the same pieces
        ns = np.bincount(span, within * self.left * self.ns, found.begin.size)
        share = np.minimum(found.more_ns * self.path.roots / np.maximum(ns, 1), 1.0)[span] * within
        off = 2 * found.error_ns / found.each_ns
        least = 0.0 if found.is_most else max(1 - off, 0.0)
        self.give(Why.FRAGMENTS, share, share * least, np.minimum(share * (1 + off), within))
        return found

    def _metadata_reads(self) -> None:
        """Those that are the run's first of their place: inodes, directories, trees not in memory yet."""
        block = self.block
        rows = np.flatnonzero(block.op.is_("read") & block.class_.is_("metadata") & ~self.is_others)
        cold = np.zeros(block.rows, dtype=np.bool_)
        cold[rows] = first_reads(block, rows)
        self.give(Why.COLD_METADATA, self.is_(cold) & ~self._is_held_up())

    def _again(self) -> Mask:
        """Which reads have mostly pages that had been in memory; none if there are too many to tell."""
        found = np.zeros(self.block.rows, dtype=np.bool_)
        pages = pages_read_again(self.block, self.traits.is_direct)
        if pages is not None:
            found[pages.row] = 2 * pages.again > pages.pages
        return found

    def _is_held_up(self) -> Mask:
        """Pieces at which the root waited for a lock or the like, whoever waited for the request."""
        has = np.array([one.cause in HELD_UP for one in self.rows.causes.waited] + [False])
        return np.asarray(has[self.at.own])

    def _gap_ns(self, mask: Mask, is_ahead_too: bool) -> int:
        """Time in which the one thread waited for these reads of its own while switches were not recorded.

        is_ahead_too: it waited for those with the flag of readahead, too.
        """
        gaps = self.tables.get(sched_window.TABLE)
        pid, flags = self.block.read("pid"), self.block.read("flags")
        if gaps is None or pid is None or not gaps.start_ns.size or not self.path.is_one:
            return 0
        # the root, or the thread of the workload that the root waits for
        pids, counts = np.unique(pid[np.unique(self.at.row[self.is_(mask)])], return_counts=True)
        if not pids.size or counts.max() < READERS_SHARE * counts.sum():
            return 0
        roots = self.rows.roots
        chosen = mask & (pid == pids[counts.argmax()])
        if flags is not None and not is_ahead_too:
            chosen &= flags & AHEAD == 0
        begin, end = int(roots.begin.min()), int(roots.end.max())
        read = spans(self.block.queue_ns[chosen], self.block.complete_ns[chosen], begin, end)
        gap = spans(gaps.start_ns, gaps.end_ns, begin, end)
        return _common_ns(read.begin, read.end, gap.begin, gap.end)

    def _seeks(self) -> tuple[float, float, float, float]:
        """Means without and with a seek, ns due to seeks from another class, and how many of these."""
        at, block, found = self.at, self.block, self.distances
        nothing = (0.0, 0.0, 0.0, 0.0)
        is_device = self.has_row & (at.part == Part.DEVICE)
        if found is None or (is_device * self.ns).sum() < LEAST_SHARE * self.path.total_ns:
            return nothing
        far = np.zeros(block.rows, dtype=np.bool_)
        mixed = np.zeros(block.rows, dtype=np.bool_)
        far[found.rows[found.is_seek]] = True
        code = block.class_.codes[found.rows]
        mixed[found.rows[1:][(code[1:] != code[:-1]) & found.is_seek[1:]]] = True
        near_rows = found.rows[found.has_previous & ~found.is_seek]
        far_rows = found.rows[found.is_seek]
        near_rows = near_rows[:: max(near_rows.size // SEEKS_COMPARED_MOST, 1)]
        far_rows = far_rows[:: max(far_rows.size // SEEKS_COMPARED_MOST, 1)]
        near_rows, far_rows = near_rows[block.timed[near_rows]], far_rows[block.timed[far_rows]]
        # a request that is served beside others takes longer with a seek and without
        near_alone, far_alone = self._is_alone(near_rows), self._is_alone(far_rows)
        near_kinds, far_kinds = kind_of(block, near_rows), kind_of(block, far_rows)
        near_took = (block.complete_ns[near_rows] - block.issue_ns[near_rows]).astype(np.float64)
        far_took = (block.complete_ns[far_rows] - block.issue_ns[far_rows]).astype(np.float64)
        is_far = is_device & far[self.row]
        kinds = np.where(is_far, kind_of(block, self.row), NONE)
        share, low, high = (np.zeros(at.row.size) for _ in range(3))
        sums = [0.0, 0.0, 0.0]
        for kind in np.unique(kinds[kinds >= 0]).tolist():
            of_near, of_far = near_kinds == kind, far_kinds == kind
            alone = of_near & near_alone, of_far & far_alone
            if min(np.count_nonzero(one) for one in alone) >= LEAST_COMPARED:
                of_near, of_far = alone
            near, away = near_took[of_near], far_took[of_far]
            if near.size < LEAST_COMPARED or away.size < LEAST_COMPARED:
                continue
            ratio, error = ratio_of_means(near, away)
            mine = kinds == kind
            share[mine] = max(1 - ratio, 0.0)
            low[mine], high[mine] = max(1 - ratio - 2 * error, 0.0), min(max(1 - ratio + 2 * error, 0.0), 1.0)
            weight = float(self.ns[mine].sum())
            sums = [sums[0] + weight, sums[1] + weight * near.mean(), sums[2] + weight * away.mean()]
        if self.head is not None:  # the disk's own seconds, of whatever it served
            share = np.minimum(self.head.of(State.SEEK) / np.maximum(self.ns, 1), 1.0)
            low = high = share
        # of each piece as a whole: this is another view of the same time
        self._add(Why.SEEKS, share, low, high)
        is_mixed = self.is_(mixed)
        total = max(sums[0], 1.0)
        return (
            sums[1] / total,
            sums[2] / total,
            float((share * is_mixed * self.ns).sum()),
            float(np.unique(at.row[is_mixed & (share > 0)]).size),
        )

    def _is_alone(self, rows: I64) -> Mask:
        """Whether the device had no other request as each of these was issued."""
        block = self.block
        t = block.issue_ns[rows]
        issued = np.searchsorted(in_order(block.issue_ns, block.lasting), t, side="right")
        ended = np.searchsorted(in_order(block.complete_ns, block.lasting), t, side="right")
        return np.asarray(issued - ended <= 1)

    def _held(self) -> Held | None:
        rows = np.flatnonzero(self.traits.is_held)
        if not rows.size:
            return None
        sent = self.block.queue_ns[rows]
        first, last = int(sent.min()), int(sent.max())
        moved = int(self.block.bytes[rows].sum(dtype=np.int64))
        passed = (self.block.queue_ns >= first) & (self.block.queue_ns < last) & ~self.is_others
        passed_bytes = int(self.block.bytes[passed].sum(dtype=np.int64))
        return Held(int(rows.size), moved, first, last, int(passed.sum()), passed_bytes)

    def _held_share(self) -> float:
        written = self.block.op.is_("write") & ~self.is_others
        total = self.block.bytes[written].sum(dtype=np.float64)
        held = self.block.bytes[written & self.traits.is_held].sum(dtype=np.float64)
        return float(held / total) if total else 0.0

    def _busy(self) -> tuple[float, float]:
        """Bytes that completed per second of the path's time with a device, and the mean depth meanwhile."""
        at, block = self.at, self.block
        pieces = np.flatnonzero(at.part == Part.DEVICE)
        begin, end = at.begin[pieces], at.end[pieces]
        path = spans(begin, end, int(at.begin.min()), int(at.end.max()) + 1)
        busy_ns = float((path.end - path.begin).sum())
        if not busy_ns:
            return 0.0, 0.0
        middle = (begin + end) // 2
        issued = np.searchsorted(in_order(block.issue_ns, block.lasting), middle, side="right")
        ended = np.searchsorted(in_order(block.complete_ns, block.lasting), middle, side="right")
        depth = float(np.average(issued - ended, weights=np.maximum(end - begin, 1)))
        moved = 0.0
        for part in parts(block.rows):
            done = block.complete_ns[part]
            inside = np.searchsorted(path.begin, done, side="right") - 1
            within = (inside >= 0) & (done <= path.end[np.maximum(inside, 0)]) & block.lasting[part]
            moved += float(block.bytes[part][within].sum(dtype=np.float64))
        return moved / busy_ns * 1e9, depth

    def _woken_ns(self, why: Why, sleeps: I32) -> int:
        """Who sleeps at each read waits for a CPU as often: with the read in memory, that is saved, too."""
        return woken_ns(self.rows, sleeps) if why in WITH_WAKE_UPS else 0

    def _add(self, why: Why, value: F64, low: F64, high: F64) -> None:
        """Note the time of a cause: its share of each piece, with limits."""
        at, block = self.at, self.block
        ns = value * self.ns
        total = float(ns.sum())
        if not total:
            return
        mine = np.flatnonzero(value > 0)
        rows = np.unique(at.row[mine][at.row[mine] >= 0])
        causes = self.rows.causes.waited
        line_ns: dict[str, float] = {}
        for code, part in zip(*_sums(at.own[mine], ns[mine], len(causes)), strict=True):
            if code >= 0:
                line_ns[causes[code].cause] = line_ns.get(causes[code].cause, 0.0) + part
        phases = self.tables.phases
        phase = phase_of(phases, at.begin[mine])
        names: tuple[str, ...] = ()
        if phases is not None:
            of_phase = {row: float(ns[mine][phase == row].sum()) for row in np.unique(phase).tolist()}
            large = [row for row, part in of_phase.items() if row >= 0 and part >= total / 10]
            names = tuple(dict.fromkeys(phases.name[row] for row in large))
        label = self.rows.requests.label
        labels, _ = _sums(label.codes[at.request[mine]], ns[mine], len(label.labels))
        waiter, _ = _sums(at.waiter[mine], ns[mine], len(causes))
        self.times[why] = WhyTime(
            ns=total,
            low_ns=float((low * self.ns * ~at.weak).sum()),
            high_ns=float((high * self.ns).sum()),
            weak_ns=float(ns[at.weak].sum()),
            queue_ns=float(ns[at.part == Part.QUEUE].sum()),
            machinery_ns=float(ns[at.part == Part.MACHINERY].sum()),
            requests=int(np.unique(at.request[mine]).size),
            bytes=int(block.bytes[rows].sum(dtype=np.int64)),
            q2d_ns=float((block.issue_ns[rows] - block.queue_ns[rows]).mean()) if rows.size else 0.0,
            d2c_ns=float((block.complete_ns[rows] - block.issue_ns[rows]).mean()) if rows.size else 0.0,
            start_ns=int(at.begin[mine].min()),
            end_ns=int(at.end[mine].max()),
            phases=names,
            line_ns=line_ns,
            ops=tuple(label.labels[code] for code in labels),
            names=submitters(block.comm, rows) if rows.size else (),
            places=tuple(dict.fromkeys(causes[code].place for code in waiter if code >= 0)),
            woken_ns=self._woken_ns(why, at.own_sleep[mine]),
            gap_ns=self.gaps.get(why, 0),
            head_ns=self._head_ns(why, value),
        )

    def _head_ns(self, why: Why, share: F64) -> HeadNs:
        """What emulated disks did in this share of the pieces; of SEEKS, which is a part of it, the seeks."""
        if self.head is None:
            return {}
        if why == Why.SEEKS:
            return self.head.sums(np.ones(share.size), State.SEEK)
        return self.head.sums(share)


def _sums(codes: npt.NDArray[np.integer], ns: F64, size: int) -> tuple[list[int], list[float]]:
    """The codes with time, most first, and their times. NONE is a code, too."""
    sums = np.bincount(np.asarray(codes, dtype=np.int64) + 1, ns, size + 1)
    order = np.argsort(-sums, kind="stable")
    order = order[sums[order] > 0]
    return [int(code) - 1 for code in order], [float(part) for part in sums[order]]


def _common_ns(begin: I64, end: I64, other_begin: I64, other_end: I64) -> int:
    """Time that lies in both of two unions of spans."""
    if not begin.size or not other_begin.size:
        return 0

    def until(t: I64) -> I64:
        """Time of the first union before t."""
        before = np.concatenate(([0], np.cumsum(end - begin)))
        at = np.searchsorted(begin, t, side="right") - 1
        inside = np.clip(t - begin[np.maximum(at, 0)], 0, (end - begin)[np.maximum(at, 0)])
        return np.where(at >= 0, before[np.maximum(at, 0)] + inside, 0)

    return int((until(other_end) - until(other_begin)).sum())
