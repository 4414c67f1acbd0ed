# SPDX-License-Identifier: BSD-2-Clause
"""The workload's sleeps that its progress waited for: when, how long, by which call path, for whose commit.

    basis "path"     of the path's threads; a sleep that several commits were on the way of has a row for each
    basis "threads"  without a path: of all threads of the workload, a row per bin, thread and call path

ns is time of the ledger's basis: Ledger.seconds() makes it seconds of the workload's wall time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.causes.roles import OTHER, WORKLOAD
from analysis.causes.rules import LOCK
from analysis.measures.common.intervals import joined
from analysis.measures.critical_path.intervals import State
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import NoPath, PathResults, PathRows
from analysis.measures.critical_path.sums import cut_at
from analysis.measures.locks.lock_names import SYSCALL, symbol
from analysis.measures.locks.waits_by_stack import group
from analysis.measures.threads.parts import VOLUNTARY
from analysis.measures.waits.commits import Commits, Whose
from analysis.measures.waits.explained import SYNC_CALL, SYNC_WRITE, explain, goes_on
from analysis.measures.waits.turn import is_before_own, waits_itself, woken_by
from analysis.tables import thread_time, wake
from analysis.tables.load import Tables
from analysis.tables.store import I64, Categorical
from analysis.tables.thread_rows import ASLEEP

Mask = npt.NDArray[np.bool_]
AT_DEVICE = (Kind.DEVICE, Kind.QUEUE, Kind.COMPLETION, Kind.BELOW, Kind.HANDED, Kind.OTHER_DISK)
# waits for a buffer that the commit is writing to the log
IN_LOG_WRITE = ("do_get_write_access", "jbd2_journal_get_write_access")
KSYS = re.compile(r"^(?:ksys|do)_(write|read|fsync|fdatasync|pwrite64|pread64|writev|readv|pwritev|preadv)$")
COMMIT, FLUSH = "commit", "flush"
# sleeps until the log buffer before one's own is written (XFS); in other functions until one's own is
FOR_LOG_BEFORE = ("xlog_force_lsn",)
IO = ("device_write", "flush", "queue")  # a sync's own data, and the disk's cache
CODE = "code"  # of the cause
OWN_COLUMNS = ("begin_ns", "end_ns", "ns", "weak_ns", "device_ns", "sleep", "wake", "stack_id", "commit")
ROW = (
    *OWN_COLUMNS,
    "root",
    "space",
    "ahead",
    "beside",
    CODE,
)  # further: thread, is for a lock's room, is another's force
JOURNAL = "write journal"  # label of requests


@dataclass(frozen=True)
class Sleeps:
    """One row: a sleep, or the part of one that has these in common. Rows ascend by begin."""

    begin_ns: I64
    end_ns: I64
    ns: I64
    weak_ns: I64
    sleep: I64  # number of the sleep: of the path's lot of roots << 40 | of the interval
    cause: Categorical
    place: Categorical
    wake: I64  # row of the table wake that ended it; -1: not known
    stack_id: I64
    call: Categorical  # system call by the call path: fsync; "": a page fault, or not known
    device_ns: I64  # of ns: with a request, at the device, queued or on the disk below
    commit: I64  # row of the table event whose commit it went through; -1: none
    whose: Categorical  # of WHOSE: who asked for that commit
    explained: Categorical  # kind of finding that it belongs to; "": the cause's own
    is_timed: bool  # begin and end are the sleep's own; else of its bin

    def where(self, rows: Mask | I64) -> Sleeps:
        """These rows, by mask or number."""
        columns: dict[str, Any] = {}
        for name, values in self.__dict__.items():
            if isinstance(values, np.ndarray):
                columns[name] = values[rows]
            elif isinstance(values, Categorical):
                columns[name] = Categorical(values.codes[rows], values.labels)
            else:
                columns[name] = values
        return Sleeps(**columns)

    def of(self, explained: str, *causes: str) -> Sleeps:
        """The rows of a kind; with causes only these."""
        mask = self.explained.is_(explained)
        return self.where(mask & self.cause.is_in(causes) if causes else mask)

    @property
    def interval(self) -> I64:
        """Number of the thread's interval, before events cut it (Intervals.whole)."""
        return self.sleep & ((1 << 40) - 1)

    @property
    def total_ns(self) -> int:
        """All time."""
        return int(self.ns.sum())

    @property
    def total_weak_ns(self) -> int:
        """Of it, time that rests on a guess."""
        return int(self.weak_ns.sum())

    @property
    def shared(self) -> Sleeps:
        """The workload's own syncs, in commits that others had asked for first: both need them."""
        own = self.explained.is_in((SYNC_CALL, SYNC_WRITE))
        return self.where(own & self.whose.is_(Whose.OTHERS))

    @property
    def count(self) -> int:
        """Number of sleeps."""
        return int(np.unique(self.sleep).size)

    @property
    def longest_ns(self) -> int:
        """The longest sleep."""
        if not self.ns.size:
            return 0
        _, of = np.unique(self.sleep, return_inverse=True)
        return int(np.bincount(of, self.ns).max())

    def spans(self) -> tuple[I64, I64]:
        """Begins and ends of the time that the rows cover."""
        return joined(self.begin_ns, self.end_ns) if self.begin_ns.size else (self.begin_ns, self.end_ns)

    def by(self, column: Categorical) -> list[tuple[str, int, int]]:
        """Label, time and number of sleeps by a column of these rows, most time first."""
        found = []
        for label in column.present():
            mask = column.is_(label)
            found.append((label, int(self.ns[mask].sum()), int(np.unique(self.sleep[mask]).size)))
        return sorted(found, key=lambda one: (-one[1], one[0]))


def call_of(frames: Sequence[str]) -> str:
    """The system call that a call path began with; "": none."""
    for frame in reversed(frames[-6:]):
        if match := SYSCALL.match(name := symbol(frame).split(".")[0]) or KSYS.match(name):
            return match.group(1)
    return ""


def measure_sleeps(
    path: PathResults | NoPath, tables: Tables, own: frozenset[int] = frozenset()
) -> Sleeps | None:
    """The sleeps of the ledger's basis. None: neither switches nor thread times were recorded.

    own: device numbers of the tested file system, see commits.is_tested().
    """
    if isinstance(path, PathResults) and path.total_ns:
        return _of_shares(path) if path.rows is None else _of_path(path.rows, tables, own)
    return _of_threads(tables)


def _labelled(
    stack_id: I64, stacks: Mapping[int, Sequence[str]], of: Callable[[Sequence[str]], str]
) -> Categorical:
    """A label of each row by its call path."""
    ids, row = np.unique(stack_id, return_inverse=True)
    labels: dict[str, int] = {}
    codes = [labels.setdefault(of(stacks.get(one) or ()), len(labels)) for one in ids.tolist()]
    return Categorical(np.array(codes or [0], dtype=np.int32)[row], tuple(labels))


def _made(
    columns: dict[str, I64],
    cause: Categorical,
    place: Categorical,
    whose: Categorical,
    stacks: Mapping[int, Sequence[str]],
    is_timed: bool,
    others_fill: bool = False,
) -> Sleeps:
    stack = columns["stack_id"]
    call = _labelled(stack, stacks, call_of)
    root = columns.pop("root")
    flags = ("space", "ahead", "beside")
    for_space, ahead, beside = (columns.pop(name).astype(np.bool_) for name in flags)
    follows = goes_on(root, columns["sleep"], columns["begin_ns"], columns["end_ns"], stack) & is_timed
    follows |= ahead
    explained = explain(stack, stacks, cause, call, whose, follows, for_space, beside, others_fill)
    rows = Sleeps(
        **columns, cause=cause, place=place, call=call, whose=whose, explained=explained, is_timed=is_timed
    )
    return rows.where(np.argsort(rows.begin_ns, kind="stable"))


def _of_path(rows: PathRows, tables: Tables, own_numbers: frozenset[int]) -> Sleeps:
    intervals, causes = rows.intervals, rows.causes
    commits = Commits(tables, own_numbers)
    is_journal = np.array([label == JOURNAL for label in rows.requests.label.labels] or [False])
    is_io = np.array([one.cause in IO for one in causes.waited] or [False])
    is_shadow = np.array([one.place in IN_LOG_WRITE for one in causes.waited] or [False])
    is_flush, is_commit = (
        np.array([one.cause == cause for one in causes.waited] or [False]) for cause in (FLUSH, COMMIT)
    )
    is_before = np.array([one.place in FOR_LOG_BEFORE for one in causes.waited] or [False])
    sent_by_others = _sent_by_others(rows, tables)
    owner_tid = np.array(rows.owners.tid, dtype=np.int64)
    wakes = tables.get(wake.TABLE)
    is_lock_code = np.array([one.cause == LOCK for one in causes.waited] or [False])
    parts: list[dict[str, I64]] = []
    for number, whole in enumerate(rows.pieces):
        pieces = cut_at(whole, commits.turns)
        asleep = np.flatnonzero((pieces.own >= 0) & (intervals.state[pieces.own] == State.ASLEEP))
        if not asleep.size:
            continue
        own, begin = pieces.own[asleep].astype(np.int64), pieces.begin[asleep]
        request = pieces.request[asleep]
        journal = np.zeros(asleep.size, dtype=np.bool_)
        known = request >= 0
        journal[known] = is_journal[rows.requests.label.codes[request[known]]]
        journal |= is_shadow[causes.code[own]]
        commit = commits.of(pieces.event[asleep].astype(np.int64), begin, journal)
        ahead = commits.ahead(commit, begin)
        flushes = np.flatnonzero(is_flush[causes.code[own]])
        ahead[flushes] = commits.joined_before(owner_tid[intervals.thread[own[flushes]]], begin[flushes])
        wakers = np.where(
            is_commit[causes.code[own]],
            woken_by(intervals.wake[own].astype(np.int64), rows, wakes, OTHER),
            -1,
        )
        is_theirs = is_before[causes.code[own]] & known & (ahead < 0)  # of storms of syncs, events are lost
        is_theirs[known] &= sent_by_others[request[known]]
        commit[is_theirs] = -1
        is_ahead = (ahead >= 0) | is_theirs | waits_itself(wakers, begin, rows, COMMIT)
        beside = is_io[causes.code[own]] & commits.is_beside(begin)
        commit = np.where(ahead >= 0, ahead, commit)
        sleep = (np.int64(number) << 40) + intervals.whole[own]
        is_lock = is_lock_code[causes.code[own]]
        # the workload is made to wait by a holder who waits for room, not by one who works
        by_others = (pieces.kind[asleep] != Kind.CPU) | (pieces.work_id[asleep] > 0) | known
        space = is_lock & by_others & commits.is_for_space(begin)
        groups = group(
            [sleep, commit, space.astype(np.int64), is_ahead.astype(np.int64), beside.astype(np.int64)]
        )
        first = np.full(groups.n, np.iinfo(np.int64).max)
        last = np.zeros(groups.n, dtype=np.int64)
        np.minimum.at(first, groups.of_row, begin)
        np.maximum.at(last, groups.of_row, pieces.end[asleep])
        ns, weak, device = (np.zeros(groups.n, dtype=np.int64) for _ in range(3))
        np.add.at(ns, groups.of_row, pieces.ns[asleep])
        np.add.at(weak, groups.of_row, np.where(pieces.weak[asleep], pieces.ns[asleep], 0))
        at_device = np.isin(pieces.kind[asleep], AT_DEVICE) | (pieces.below[asleep] >= 0)
        np.add.at(device, groups.of_row, np.where(at_device, pieces.ns[asleep], 0))
        mine = groups.first
        parts.append(
            {
                "begin_ns": first,
                "end_ns": last,
                "ns": ns,
                "weak_ns": weak,
                "device_ns": device,
                "sleep": sleep[mine],
                "wake": intervals.wake[own[mine]].astype(np.int64),
                "stack_id": intervals.stack_id[own[mine]].astype(np.int64),
                "commit": commit[mine],
                "root": pieces.root[asleep][mine].astype(np.int64),
                "space": space[mine].astype(np.int64),
                "ahead": is_ahead[mine].astype(np.int64),
                "beside": beside[mine].astype(np.int64),
                CODE: causes.code[own[mine]].astype(np.int64),
            }
        )
    none = np.zeros(0, dtype=np.int64)
    columns = {name: np.concatenate([none, *(part[name] for part in parts)]) for name in ROW}
    code = columns.pop(CODE)
    cause, place = (
        _relabel(code, [getattr(one, name) for one in causes.waited]) for name in ("cause", "place")
    )
    by_whom = woken_by(columns["wake"], rows, wakes, OTHER) >= 0
    by_other = by_whom & cause.is_(COMMIT)  # Btrfs's fsyncs wake one another
    # what is ahead of one's own without a commit that is known: found by who sent the request
    by_other |= (columns["ahead"] > 0) & (columns["commit"] < 0) & cause.is_(COMMIT)
    before = is_before_own(
        by_other, columns["root"], columns["sleep"], columns["begin_ns"], columns["stack_id"], tables.stacks
    )
    columns["ahead"] |= before
    # a sync waits for a lock that another process's commit holds
    columns["beside"] |= by_whom & cause.is_(LOCK) & commits.is_others(columns["begin_ns"])
    whose = commits.whose(columns["commit"], by_other)
    return _made(columns, cause, place, whose, tables.stacks, True, commits.others_fill)


def _sent_by_others(rows: PathRows, tables: Tables) -> Mask:
    """Which of the path's requests another process sent, by number."""
    row = rows.requests.row
    found = np.zeros(row.size, dtype=np.bool_)
    submitter = None if tables.block is None else tables.block.read_categorical("submitter")
    known = row >= 0
    if submitter is not None:
        found[known] = submitter.is_("other")[row[known]]
    return found


def _relabel(codes: I64, texts: Sequence[str]) -> Categorical:
    labels: dict[str, int] = {}
    code_of = np.array([labels.setdefault(text, len(labels)) for text in texts] or [0], dtype=np.int32)
    return Categorical(code_of[codes], tuple(labels))


def _of_shares(path: PathResults) -> Sleeps:
    """Of a path whose pieces are too many to keep: sums by cause and place, over all of the run."""
    sums: dict[tuple[str, str], list[int]] = {}
    for share in path.shares:
        if share.own.cause in ("on a CPU", "ready", "over", "lost", "not recorded", "none"):
            continue
        of = sums.setdefault((share.own.cause, share.own.place), [0, 0])
        of[0], of[1] = of[0] + share.ns, of[1] + share.weak_ns
    size = len(sums)
    zero, number = np.zeros(size, dtype=np.int64), np.arange(size, dtype=np.int64)
    columns = {
        "begin_ns": zero,
        "end_ns": zero,
        "ns": np.array([one[0] for one in sums.values()], dtype=np.int64),
        "weak_ns": np.array([one[1] for one in sums.values()], dtype=np.int64),
        "device_ns": zero,
        "sleep": number,
        "wake": zero - 1,
        "stack_id": zero - 1,
        "commit": zero - 1,
        "root": zero,
        "space": zero,
        "ahead": zero,
        "beside": zero,
    }
    cause, place = (_relabel(number, [key[i] for key in sums]) for i in (0, 1))
    return _made(columns, cause, place, Categorical(zero, (Whose.NONE,)), {}, False)


def _of_threads(tables: Tables) -> Sleeps | None:
    times = tables.get(thread_time.TABLE)
    if times is None:
        return None
    asleep = times.role.is_(WORKLOAD) & times.state.is_in(ASLEEP) & ~times.cause.is_in(VOLUNTARY)
    at = np.flatnonzero(asleep)
    columns = {
        "begin_ns": times.bin_ns[at],
        "end_ns": times.bin_ns[at] + times.bin_length_ns[at],
        "ns": times.ns[at],
        "weak_ns": np.zeros(at.size, dtype=np.int64),
        "device_ns": np.zeros(at.size, dtype=np.int64),
        "sleep": np.arange(at.size, dtype=np.int64),
        "wake": np.full(at.size, -1, dtype=np.int64),
        "stack_id": times.stack_id[at].astype(np.int64),
        "commit": np.full(at.size, -1, dtype=np.int64),
        "root": times.thread[at].astype(np.int64),
        "space": np.zeros(at.size, dtype=np.int64),
        "ahead": np.zeros(at.size, dtype=np.int64),
        "beside": np.zeros(at.size, dtype=np.int64),
    }
    cause, place = (Categorical(one.codes[at], one.labels) for one in (times.cause, times.place))
    whose = Categorical(np.zeros(at.size, dtype=np.int32), (Whose.NONE,))
    return _made(columns, cause, place, whose, tables.stacks, False)
