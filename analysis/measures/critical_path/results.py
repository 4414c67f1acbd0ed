# SPDX-License-Identifier: BSD-2-Clause
"""Results of the critical path: what the workload's progress waited for, who, and how much of it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis import units
from analysis.causes.roles import KERNEL, WORKLOAD
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.common.window import Window
from analysis.measures.critical_path.causes import Causes, is_idle, is_voluntary, make_causes
from analysis.measures.critical_path.ends import UNKNOWN_TEXTS
from analysis.measures.critical_path.files import FileShare, file_shares
from analysis.measures.critical_path.intervals import Intervals, State, fits, make_intervals, with_events
from analysis.measures.critical_path.occupancy import make_occupancy
from analysis.measures.critical_path.owners import Owners, WorkRoles, make_owners
from analysis.measures.critical_path.pieces import Kind, Pieces, TooLongError
from analysis.measures.critical_path.requests import KnownRequests, RequestLabels, known_requests
from analysis.measures.critical_path.roots import MOST_PAUSED, Roots, choose_callers, choose_roots, stand_for
from analysis.measures.critical_path.share import OwnWaits, Share
from analysis.measures.critical_path.stopped import over_stops
from analysis.measures.critical_path.stretches import NONE, Mask, Spans, spans
from analysis.measures.critical_path.sums import Sums, Whose
from analysis.measures.critical_path.unlogged import make_unlogged
from analysis.measures.critical_path.wakes import make_wakes
from analysis.measures.critical_path.walk import Walk
from analysis.rundir.tested import TestedFilesystem
from analysis.tables import event, function, sched_window, switch, thread, thread_time, wake
from analysis.tables.event import Event
from analysis.tables.load import Tables
from analysis.tables.store import I64
from analysis.tables.users import in_calls_ns
from analysis.tables.wake import Wake

ROWS_MOST = 24_000_000  # switches and wake-ups
ROOTS_AT_ONCE = 4
KEPT_PIECES_MOST = 4_000_000
# of the time: a path with more that is not known tells less than the threads' own times do
MOST_UNKNOWN = 0.5
LEAST_LIVED = 0.5  # of the time, by the threads of a watched system: else they stand for no others
LEAST_OF_CALLS = 0.5  # or of the time in calls of all threads
NOT_COVERED = (*UNKNOWN_TEXTS, Kind.UNRECORDED)


@dataclass(frozen=True)
class Coverage:
    """How much of the path is known, and what is missing."""

    unrecorded_ns: int  # given up for the recorder's budget
    unknown_ns: int  # all other time of NOT_COVERED
    weak_ns: int
    windows_given_up: int
    no_waker: int  # sleeps on the path whose wake-up is not in the table
    deep_chains: int
    completions: int  # wake-ups by a completed request of a recorded disk, all threads
    completions_named: int  # of these, with a row in the table block or volume
    sleeps: int  # that ended within the recorded parts, all threads
    sleeps_without_waker: int


@dataclass(frozen=True)
class EventShare:
    """Time of the path that went through events of one kind and reason. is_own: of the tested file system."""

    is_own: bool
    kind: str
    why: str
    count: int
    ns: int
    max_ns: int


@dataclass(frozen=True)
class RequestShare:
    """Time of the path with requests of one kind and submitter. row: the request with most of it."""

    label: str
    comm: str
    count: int
    device_ns: int
    queue_ns: int
    max_ns: int


@dataclass(frozen=True)
class PathRows:
    """The pieces of the path, and what their numbers mean."""

    pieces: list[Pieces]  # of ROOTS_AT_ONCE roots each, numbered from 0
    roots: Roots
    intervals: Intervals
    owners: Owners
    causes: Causes
    requests: RequestLabels
    sums: Sums  # made of these pieces


@dataclass(frozen=True)
class PathResults:
    """The critical path of a run."""

    is_one: bool  # of one thread; else the mean over several
    name: str  # of the one thread
    names: tuple[str, ...]  # of the threads of a watched system, most threads first; else empty
    roots: int
    at_work: float  # mean number of threads at work
    wall_ns: int  # of the workload
    total_ns: int  # of all roots' time; all shares sum to it
    shares: list[Share]  # longest first
    own_waits: list[OwnWaits]
    over_time: Mapping[str, F64]  # mean number of roots at once by group of ends.py, per time bin
    events: list[EventShare]
    requests: list[RequestShare]
    files: list[FileShare]
    coverage: Coverage
    pieces: int
    rows: PathRows | None  # None: more than KEPT_PIECES_MOST

    def without_rows(self) -> PathResults:
        """A copy without the pieces."""
        return replace(self, rows=None)


@dataclass(frozen=True)
class NoPath:
    """There is no path. why: empty if switches were not asked for.

    is_of_many: threads come and go, so that no thread's own time tells where that of the system went, either.
    """

    why: str
    is_of_many: bool = False

    def without_rows(self) -> NoPath:
        """Itself."""
        return self


def measure_path(
    tables: Tables,
    window: Window,
    timeline: Timeline,
    tested: TestedFilesystem,
    is_watched: bool = False,
) -> PathResults | NoPath:
    """Measure the critical path of the workload's time.

    is_watched: of a live system; the path is that of the threads that were longest in calls on it.
    """
    switches, wakes_table = tables.get(switch.TABLE), tables.get(wake.TABLE)
    if switches is None or wakes_table is None:
        return NoPath("")
    rows = switches.t_ns.size + wakes_table.t_ns.size
    if rows > ROWS_MOST:
        return NoPath(f"{rows:,} switches and wake-ups; the path is found for up to {ROWS_MOST:,}")
    given_up = tables.get(sched_window.TABLE)
    none = np.zeros(0, dtype=np.int64)
    gaps = spans(
        none if given_up is None else given_up.start_ns,
        none if given_up is None else given_up.end_ns,
        window.start_ns,
        window.end_ns,
    )
    numbers = int(np.unique(np.concatenate((switches.prev, switches.next))).size)
    if not fits(numbers, window.start_ns, window.end_ns):
        return NoPath("its threads and times are too many for one number")
    intervals = make_intervals(switches, wakes_table, gaps, window.start_ns, window.end_ns)
    intervals = over_stops(intervals, switches.state.labels, tables.stacks)
    owners = make_owners(intervals, switches, tables.get(thread.TABLE), tables.get(thread_time.TABLE), tested)
    events = tables.get(event.TABLE)
    if events is not None:
        intervals = _with_events(intervals, events, owners)
    functions = tables.get(function.TABLE) or {}
    is_kernel = np.array([recorded == KERNEL for recorded in owners.recorded], dtype=np.bool_)
    idle = is_idle(intervals, is_kernel, switches.state.labels)
    requests = known_requests(
        wakes_table,
        tables.block,
        tables.volume,
        owners,
        functions,
        tables.paths,
        intervals,
        idle,
        tables.stacks,
    )
    wakes = make_wakes(wakes_table, requests.of_wake, requests.devs, intervals)
    causes = make_causes(intervals, wakes, switches.state.labels, tables.stacks, is_kernel)
    is_workload = np.array([role == WORKLOAD for role in owners.role], dtype=np.bool_)
    voluntary = is_voluntary(causes)
    workload = np.flatnonzero(is_workload)
    work_time = (window.work_start_ns, window.work_end_ns)
    lives = (intervals, workload, owners.start_ns, owners.end_ns, voluntary, work_time)
    roots, busy = choose_roots(*lives)
    if is_watched:
        in_calls = in_calls_ns(tables.get(thread_time.TABLE))
        roots = choose_callers(*lives, in_calls)
        if why := _why_of_many(roots, intervals.numbers[roots.thread].tolist(), in_calls, window):
            return NoPath(why, is_of_many=True)
    if not roots.thread.size:
        if is_watched:
            return NoPath("no program used the device")
        return NoPath("no thread of the workload was seen to run")
    unlogged = make_unlogged(tables.get(thread_time.TABLE))
    occupancy = make_occupancy(switches, window.start_ns, window.end_ns, unlogged)
    walk = Walk(intervals, wakes, requests.requests, occupancy, voluntary, idle, is_workload)
    try:
        if not is_watched and roots.is_one and stand_for(busy, roots) and _is_paused(walk, roots, voluntary):
            roots = busy
    except TooLongError as error:
        return NoPath(str(error))
    works = WorkRoles(owners, functions, tested)
    whose = Whose(owners, works)
    sums = Sums(intervals, causes, occupancy, requests.labels, events, tables.phases, timeline, whose)
    kept: list[Pieces] = []
    size = 0
    try:
        for pieces in _lots(walk, roots):
            sums.add(pieces)
            size += pieces.begin.size
            if size <= KEPT_PIECES_MOST:
                kept.append(pieces)
    except TooLongError as error:
        return NoPath(str(error))
    total_ns = int((roots.end - roots.begin).sum())
    coverage = _coverage(sums, intervals, wakes_table, requests, gaps)
    unknown = (coverage.unknown_ns + coverage.unrecorded_ns) / max(total_ns, 1)
    if unknown > MOST_UNKNOWN and tables.get(thread_time.TABLE) is not None:
        return NoPath(f"for {100 * unknown:.0f} % of the time it is not known whom the workload waited for")
    return PathResults(
        is_one=roots.is_one,
        name=owners.name[int(roots.thread[0])],
        names=_names(owners, roots) if is_watched else (),
        roots=int(roots.thread.size),
        at_work=roots.at_work,
        wall_ns=window.work_end_ns - window.work_start_ns,
        total_ns=total_ns,
        shares=sums.shares(),
        own_waits=sums.own_waits(),
        over_time=sums.over_time(),
        events=_event_shares(events, sums.of_event, tested.own_numbers),
        requests=_request_shares(requests, sums.of_request),
        files=file_shares(
            requests.labels.file, requests.labels.files, requests.labels.label, sums.of_request
        ),
        coverage=coverage,
        pieces=size,
        rows=PathRows(kept, roots, intervals, owners, causes, requests.labels, sums)
        if size <= KEPT_PIECES_MOST
        else None,
    )


def _why_of_many(roots: Roots, numbers: Sequence[int], in_calls_ns: Mapping[int, int], window: Window) -> str:
    """Why these threads of a watched system do not stand for all that used it; empty if they do."""
    count, all_ns = int(roots.thread.size), sum(in_calls_ns.values())
    theirs_ns = sum(in_calls_ns.get(number, 0) for number in numbers)
    if not count or not all_ns or theirs_ns >= LEAST_OF_CALLS * all_ns:
        return ""
    life_ns = int((roots.end - roots.begin).sum()) / count
    if life_ns >= LEAST_LIVED * (window.work_end_ns - window.work_start_ns):
        return ""
    return (
        f"{len(in_calls_ns):,} threads used the device, the longest for {units.seconds(life_ns / 1e9)} s each"
    )


def _names(owners: Owners, roots: Roots) -> tuple[str, ...]:
    """The names of the roots, each once."""
    counts = Counter(owners.name[thread] for thread in roots.thread.tolist())
    return tuple(name for name, _ in counts.most_common())


def _is_paused(walk: Walk, roots: Roots, voluntary: Mask) -> bool:
    """Whether the path of these roots is mostly pauses of their own will, or of whom they wait for."""
    pieces = walk.pieces(roots.thread, roots.begin, roots.end)
    paused = (pieces.kind == Kind.TIMER) & voluntary[pieces.interval]
    return int(pieces.ns[paused].sum()) > MOST_PAUSED * int((roots.end - roots.begin).sum())


def _lots(walk: Walk, roots: Roots) -> Iterator[Pieces]:
    """The pieces of some roots at a time. Raises TooLongError if all together are too many."""
    done = 0
    for first in range(0, roots.thread.size, ROOTS_AT_ONCE):
        at = slice(first, first + ROOTS_AT_ONCE)
        pieces = walk.pieces(roots.thread[at], roots.begin[at], roots.end[at], done)
        done += pieces.begin.size
        yield pieces


def _with_events(intervals: Intervals, events: Event, owners: Owners) -> Intervals:
    """Set the events of each thread: by thread id and time."""
    if not events.start_ns.size:
        return intervals
    lasting = np.flatnonzero(events.end_ns > events.start_ns)
    index = owners.at(events.tid[lasting], events.start_ns[lasting])
    known = index >= 0
    rows = lasting[known]
    if not rows.size:
        return intervals
    number = intervals.numbers[index[known]]
    found = with_events(intervals, number, events.start_ns[rows], events.end_ns[rows])
    return replace(found, event=np.where(found.event >= 0, rows[found.event], NONE).astype(np.int32))


def _event_shares(events: Event | None, ns: I64, own: frozenset[int]) -> list[EventShare]:
    """own: numbers of the tested file system; empty: all events are its own."""
    if events is None:
        return []
    found: dict[tuple[bool, str, str], list[int]] = {}
    for row in np.flatnonzero(ns).tolist():
        is_own = not own or int(events.dev[row]) in own or not events.dev[row]
        key = (is_own, events.kind.labels[events.kind.codes[row]], events.why.labels[events.why.codes[row]])
        sums = found.setdefault(key, [0, 0, 0])
        one = int(ns[row])
        sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + one, max(sums[2], one)
    shares = [EventShare(*key, *sums) for key, sums in found.items()]
    return sorted(shares, key=lambda share: (-share.ns, share.kind, share.why, share.is_own))


def _request_shares(requests: KnownRequests, ns: I64) -> list[RequestShare]:
    """Sums over requests; ns: device, queue and completion of each."""
    label, comm = requests.labels.label, requests.labels.comm
    used = np.flatnonzero(ns.sum(axis=0))
    key = label.codes[used].astype(np.int64) * max(len(comm.labels), 1) + comm.codes[used]
    keys, of = np.unique(key, return_inverse=True)
    sums, most = np.zeros((len(ns), keys.size), dtype=np.int64), np.zeros(keys.size, dtype=np.int64)
    for row, values in zip(sums, ns, strict=True):
        np.add.at(row, of, values[used])
    np.maximum.at(most, of, ns[:, used].sum(axis=0))
    count = np.bincount(of, minlength=keys.size)
    found = [
        RequestShare(
            label=label.labels[one // max(len(comm.labels), 1)],
            comm=comm.labels[one % max(len(comm.labels), 1)],
            count=int(count[i]),
            device_ns=int(sums[0, i] + sums[2, i]),
            queue_ns=int(sums[1, i]),
            max_ns=int(most[i]),
        )
        for i, one in enumerate(keys.tolist())
    ]
    return sorted(found, key=lambda share: (-share.device_ns - share.queue_ns, share.label, share.comm))


def _coverage(
    sums: Sums, intervals: Intervals, wakes: Wake, requests: KnownRequests, gaps: Spans
) -> Coverage:
    unrecorded = int(sums.ns_of_kind[Kind.UNRECORDED])
    # a sleep that events cut counts once
    is_first = np.concatenate(([True], intervals.whole[1:] != intervals.whole[:-1]))[: intervals.whole.size]
    asleep = (intervals.state == State.ASLEEP) & ~intervals.is_cut & is_first
    by_request = wakes.cause.is_("request") & np.isin(wakes.dev, requests.devs)
    return Coverage(
        unrecorded_ns=unrecorded,
        unknown_ns=int(sums.ns_of_kind[list(NOT_COVERED)].sum()) - unrecorded,
        weak_ns=sums.weak_ns,
        windows_given_up=int(gaps.begin.size),
        no_waker=sums.no_waker,
        deep_chains=sums.deep_chains,
        completions=int(by_request.sum()),
        completions_named=int((requests.of_wake[by_request] >= 0).sum()),
        sleeps=int(asleep.sum()),
        sleeps_without_waker=int((asleep & (intervals.wake < 0)).sum()),
    )
