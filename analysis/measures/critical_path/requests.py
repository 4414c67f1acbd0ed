# SPDX-License-Identifier: BSD-2-Clause
"""Requests that woke somebody: rows of the table block by device, first sector and time of completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.critical_path.below import find_below, in_other_work, is_loop_device
from analysis.measures.critical_path.files import Files, files_of
from analysis.measures.critical_path.intervals import Intervals
from analysis.measures.critical_path.owners import KWORKER, Owners
from analysis.measures.critical_path.stretches import I32, NONE, Mask
from analysis.measures.critical_path.walk import Requests
from analysis.tables.block import Block
from analysis.tables.path import Paths
from analysis.tables.store import I64, Categorical
from analysis.tables.wake import Wake

REQUEST = "request"  # a cause of the table wake
HELD_BY = ("blk_throtl_dispatch_work_fn",)  # works that send what a limit of a cgroup held back
# A wake-up follows the completion that is its cause within the same interrupt; the hypervisor may stop both.
LATEST_NS = 10_000_000


def requests_of(wake: Wake, block: Block | None) -> I32:
    """Row of the table block for each wake-up by a completion; NONE: another cause, or no such request."""
    found = np.full(wake.t_ns.size, NONE, dtype=np.int32)
    by = np.flatnonzero(wake.cause.is_(REQUEST))
    if block is None or not by.size:
        return found
    wanted = np.unique(wake.sector[by])
    at = np.minimum(np.searchsorted(wanted, block.sector), wanted.size - 1)
    rows = np.flatnonzero((wanted[at] == block.sector) & block.timed)
    # requests and wake-ups in one order: by device, sector, time; at the same time the request is first
    dev = np.concatenate((block.dev[rows], wake.dev[by])).astype(np.int64)
    sector = np.concatenate((block.sector[rows], wake.sector[by]))
    t = np.concatenate((block.complete_ns[rows], wake.t_ns[by]))
    order = np.lexsort((t, sector, dev))
    is_request = order < rows.size
    last = np.maximum.accumulate(np.where(is_request, np.arange(order.size), -1))
    wakes = np.flatnonzero(~is_request & (last >= 0))
    request, query = order[last[wakes]], order[wakes]
    same = (dev[request] == dev[query]) & (sector[request] == sector[query])
    same &= t[query] - t[request] <= LATEST_NS
    found[by[query[same] - rows.size]] = rows[request[same]]
    return found


@dataclass(frozen=True)
class RequestLabels:
    """What each request that woke somebody is."""

    label: Categorical  # "write data"
    comm: Categorical  # of its submitter
    row: I64  # of the table block; NONE: it is a bio to a volume
    dev: I64
    sector: I64
    queue_ns: I64
    file: I64  # row of `files`; NONE: the request belongs to none
    files: Files


@dataclass(frozen=True)
class KnownRequests:
    """The requests and bios that woke somebody, each once."""

    of_wake: I32  # of each row of the table wake, the number of its request; NONE: none
    requests: Requests
    labels: RequestLabels
    devs: I64  # of all recorded disks and volumes; wakes name those of others, too


def known_requests(
    wake: Wake,
    block: Block | None,
    volume: Block | None,
    owners: Owners,
    functions: Mapping[int, str],
    paths: Paths | None,
    intervals: Intervals,
    is_idle: Mask,
    stacks: Mapping[int, Sequence[str]],
) -> KnownRequests:
    """Requests of the disks; where a wake-up has none, bios of volumes. functions: names by number.

    is_idle: intervals asleep for want of work. stacks: their call paths.
    """
    of_wake = np.full(wake.t_ns.size, NONE, dtype=np.int32)
    parts: list[tuple[Block, I64]] = []
    size = 0
    for table in (block, volume):
        found = np.where(of_wake < 0, requests_of(wake, table), NONE)
        if table is None or not (found >= 0).any():
            continue
        rows, number = np.unique(found[found >= 0], return_inverse=True)
        of_wake[found >= 0] = number + size
        parts.append((table, rows.astype(np.int64)))
        size += rows.size

    def column(name: str) -> I64:
        return _joined([np.asarray(getattr(table, name)[rows], dtype=np.int64) for table, rows in parts])

    queue, issue, complete = column("queue_ns"), column("issue_ns"), column("complete_ns")
    dev, filesystem = column("dev"), _rare_of(parts, "sb_dev")
    below = _rare_of(parts, "below_start_us"), _rare_of(parts, "below_end_us")
    ended_by = np.full(intervals.wake.size, NONE)
    woken = np.flatnonzero(intervals.wake >= 0)
    ended_by[woken] = of_wake[intervals.wake[woken]]
    waits_for_loop = (ended_by >= 0) & is_loop_device(np.append(dev, 0))[ended_by]
    elsewhere = in_other_work(intervals, stacks, waits_for_loop)
    requests = Requests(
        queue_ns=queue,
        issue_ns=issue,
        complete_ns=complete,
        submitter=owners.at(_rare_of(parts, "pid"), queue).astype(np.int32),
        is_held=np.isin(
            _rare_of(parts, "work_id"), [number for number, name in functions.items() if name in HELD_BY]
        ),
        below=find_below(dev, issue, complete, *below, intervals, owners.serves_loop, is_idle, elsewhere),
    )
    filesystem = np.where(filesystem > 0, filesystem, dev)
    of_file, files = files_of(filesystem, _rare_of(parts, "ino"), queue, paths)
    labels = RequestLabels(*_labels(parts), _rows(parts, block), dev, column("sector"), queue, of_file, files)
    devs = _joined([np.unique(table.dev).astype(np.int64) for table in (block, volume) if table is not None])
    return KnownRequests(of_wake, requests, labels, devs)


def _rows(parts: list[tuple[Block, I64]], block: Block | None) -> I64:
    """Row of the table block of each request."""
    return _joined([rows if table is block else np.full(rows.size, NONE) for table, rows in parts])


def _rare_of(parts: list[tuple[Block, I64]], name: str) -> I64:
    """A column that is not kept."""
    found = []
    for table, rows in parts:
        column = table.read(name)
        found.append(np.zeros(rows.size, np.int64) if column is None else column[rows].astype(np.int64))
    return _joined(found)


def _joined(parts: list[I64]) -> I64:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _labels(parts: list[tuple[Block, I64]]) -> tuple[Categorical, Categorical]:
    """Operation with class, and submitter, of each request."""
    labels: dict[str, int] = {}
    comms: dict[str, int] = {}
    label_codes, comm_codes = [], []
    for table, rows in parts:
        classes = max(len(table.class_.labels), 1)
        key = table.op.codes[rows].astype(np.int64) * classes + table.class_.codes[rows]
        keys, of = np.unique(key, return_inverse=True)
        numbers = []
        for one in keys.tolist():
            op, class_ = table.op.labels[one // classes], table.class_.labels[one % classes]
            text = f"{op} {class_}" if op in ("read", "write") else op
            numbers.append(labels.setdefault(text, len(labels)))
        label_codes.append(np.array(numbers, dtype=np.int64)[of])
        names = [KWORKER if comm.startswith(f"{KWORKER}/") else comm for comm in table.comm.labels]
        of_label = [comms.setdefault(name, len(comms)) for name in names]
        comm_codes.append(np.array(of_label, dtype=np.int64)[table.comm.codes[rows]])
    return (
        Categorical(_joined(label_codes), tuple(labels)),
        Categorical(_joined(comm_codes), tuple(comms)),
    )
