# SPDX-License-Identifier: BSD-2-Clause
"""Pieces of the path, summed: by phase, the root's own cause, kind, whose, request and event.

Pieces of many roots are millions: each lot of roots is summed before the next is walked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analysis.causes.classify import Waited
from analysis.causes.roles import KERNEL, OTHER, ROLES
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.critical_path.causes import Causes
from analysis.measures.critical_path.ends import GROUPS, end_of
from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.occupancy import Occupancy
from analysis.measures.critical_path.owners import IDLE, Owners, WorkRoles
from analysis.measures.critical_path.pieces import Kind, Pieces
from analysis.measures.critical_path.requests import RequestLabels
from analysis.measures.critical_path.share import OwnWaits, Share
from analysis.measures.critical_path.stretches import NONE, Mask
from analysis.measures.locks.waits_by_stack import group
from analysis.tables.event import Event
from analysis.tables.phase import Phases
from analysis.tables.store import I64

OUTSIDE = NONE  # the phase of time outside of all phases
PIECES_AT_ONCE = 1 << 19  # while they are cut and grouped, a piece takes some 400 bytes
OF_REQUEST = (Kind.DEVICE, Kind.QUEUE, Kind.COMPLETION)
NOT_SEEN = np.iinfo(np.int64).min  # in place of a thread: who had the CPU is not known
NOT_LOGGED, KERNEL_THREAD, WHO_NOT_SEEN = "not logged", "kernel thread, not logged", "who ran not seen"
# names by the role of a thread that is not logged
UNLOGGED_NAMES = {IDLE: "idle", KERNEL: KERNEL_THREAD, "unknown": WHO_NOT_SEEN}


def cut_at(pieces: Pieces, times: I64) -> Pieces:
    """The pieces, cut at times (ascending)."""
    if not times.size:
        return pieces
    first = np.searchsorted(times, pieces.begin, side="right")
    count = np.searchsorted(times, pieces.end, side="left") - first + 1
    if int(count.max(initial=1)) == 1:
        return pieces
    of = np.repeat(np.arange(count.size), count)
    number = np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)
    columns = {name: getattr(pieces, name)[of] for name in pieces.__dataclass_fields__}
    at = first[of] + number
    before = times[np.clip(at - 1, 0, times.size - 1)]
    after = times[np.clip(at, 0, times.size - 1)]
    columns["begin"] = np.where(number > 0, before, columns["begin"])
    columns["end"] = np.where(number < count[of] - 1, after, columns["end"])
    return replace(pieces, **columns)


def _parts(pieces: Sequence[Pieces]) -> Iterator[Pieces]:
    """PIECES_AT_ONCE pieces at a time."""
    for some in pieces:
        for first in range(0, some.begin.size, PIECES_AT_ONCE):
            yield _rows(some, slice(first, first + PIECES_AT_ONCE))


def _rows(pieces: Pieces, kept: Mask | slice) -> Pieces:
    return replace(pieces, **{name: getattr(pieces, name)[kept] for name in pieces.__dataclass_fields__})


def phase_of(phases: Phases | None, t: I64) -> I64:
    """Row of the phase that each time lies in: of several, the one that began last; OUTSIDE: none."""
    if phases is None or not phases.start_ns.size:
        return np.full(t.size, OUTSIDE, dtype=np.int64)
    at = np.searchsorted(phases.start_ns, t, side="right") - 1
    inside = (at >= 0) & (t < phases.end_ns[np.maximum(at, 0)])
    return np.where(inside, at, OUTSIDE)


class Sums:
    """Sums of the pieces of all roots."""

    def __init__(
        self,
        intervals: Intervals,
        causes: Causes,
        occupancy: Occupancy,
        requests: RequestLabels,
        event: Event | None,
        phases: Phases | None,
        timeline: Timeline,
        whose: Whose,
    ) -> None:
        self._intervals = intervals
        self._causes = causes
        self._occupancy = occupancy
        self._requests = requests
        self._event = event
        self._phases = phases
        self._timeline = timeline
        self._whose = whose
        self._phase_names, self._phase_code = _names_of(phases)
        self._shares: dict[tuple[int, ...], _Sum] = {}
        edges = [timeline.edges_ns[1:-1]]
        if phases is not None:
            edges += [phases.start_ns, phases.end_ns]
        self._edges = np.unique(np.concatenate(edges))
        self._ns_by_bin = np.zeros((len(GROUPS), timeline.bins), dtype=np.int64)
        self.of_request = np.zeros((3, requests.dev.size), dtype=np.int64)  # ns by OF_REQUEST
        self.of_event = np.zeros(0 if event is None else event.start_ns.size, dtype=np.int64)  # ns
        self._own: list[tuple[npt.NDArray[np.int32], I64]] = []
        self.ns_of_kind = np.zeros(len(Kind), dtype=np.int64)
        self.deep_chains = 0
        self.weak_ns = 0
        self.no_waker = 0

    def add(self, pieces: Pieces) -> None:
        """Add the pieces of some roots."""
        intervals = self._intervals
        self._own_waits(pieces)
        np.add.at(self.ns_of_kind, pieces.kind, pieces.ns)
        self.deep_chains += int((pieces.kind == Kind.DEEP).sum())
        self.weak_ns += int(pieces.ns[pieces.weak].sum())
        asleep = pieces.kind == Kind.NO_WAKER
        self.no_waker += int(np.count_nonzero(~intervals.is_cut[pieces.interval[asleep]]))
        for row, kind in enumerate(OF_REQUEST):
            mine = (pieces.kind == kind) & (pieces.below < 0)
            np.add.at(self.of_request[row], pieces.request[mine], pieces.ns[mine])
        below = pieces.below >= 0
        np.add.at(self.of_request[0], pieces.below[below], pieces.ns[below])
        has_event = pieces.event >= 0
        np.add.at(self.of_event, pieces.event[has_event], pieces.ns[has_event])
        pieces = cut_at(pieces, self._edges)
        columns = self._columns(pieces)
        groups = group(columns)
        ns, weak, count = (np.zeros(groups.n, dtype=np.int64) for _ in range(3))
        np.add.at(ns, groups.of_row, pieces.ns)
        np.add.at(weak, groups.of_row, np.where(pieces.weak, pieces.ns, 0))
        np.add.at(count, groups.of_row, 1)
        end = np.zeros(groups.n, dtype=np.int64)
        for g, first in enumerate(groups.first.tolist()):
            key = tuple(int(column[first]) for column in columns)
            if key not in self._shares:
                self._shares[key] = self._new(key)
            share = self._shares[key]
            share.add(int(ns[g]), int(weak[g]), int(count[g]))
            end[g] = share.end
        at = end[groups.of_row] * self._timeline.bins + self._timeline.index(pieces.begin)
        np.add.at(self._ns_by_bin.reshape(-1), at, pieces.ns)

    def _columns(self, pieces: Pieces) -> list[I64]:
        """What the pieces of one share have in common, as numbers: the key of a share."""
        intervals = self._intervals
        phase = self._phase_code[phase_of(self._phases, pieces.begin)]
        code = self._causes.code
        thread = pieces.thread.astype(np.int64)
        ready = (pieces.kind == Kind.READY) & (pieces.occupant >= 0)
        occupant = self._occupancy.thread[pieces.occupant[ready]]
        thread[ready] = intervals.index(occupant)
        # where nobody known ran, the role alone, below NONE
        unknown = np.full(pieces.begin.size, False)
        unknown[ready] = thread[ready] < 0
        role = np.zeros(pieces.begin.size, dtype=np.int64)
        role[unknown] = self._occupancy.role.codes[pieces.occupant[unknown]]
        thread[(pieces.kind == Kind.READY) & (pieces.occupant < 0)] = NOT_SEEN
        thread[unknown] = NONE - 1 - role[unknown]
        request = pieces.request >= 0
        label, comm = (np.full(pieces.begin.size, NONE, dtype=np.int64) for _ in range(2))
        label[request] = self._requests.label.codes[pieces.request[request]]
        comm[request] = self._requests.comm.codes[pieces.request[request]]
        kind_of_event, why = (np.full(pieces.begin.size, NONE, dtype=np.int64) for _ in range(2))
        if self._event is not None:
            rows = np.flatnonzero(pieces.event >= 0)
            kind_of_event[rows] = self._event.kind.codes[pieces.event[rows]]
            why[rows] = self._event.why.codes[pieces.event[rows]]
        cause = np.where(pieces.interval >= 0, code[np.maximum(pieces.interval, 0)], NONE)
        work = np.where(pieces.kind == Kind.CPU, pieces.work_id, 0)
        own = np.where(pieces.own >= 0, code[np.maximum(pieces.own, 0)], NONE)
        columns = (
            phase,
            own,
            pieces.interval == pieces.own,
            pieces.kind,
            thread,
            work,
            cause,
            label,
            comm,
            kind_of_event,
            why,
            pieces.below >= 0,
        )
        return [np.asarray(column).astype(np.int64) for column in columns]

    def by_bin(self, pieces: Sequence[Pieces], start_ns: I64, end_ns: I64) -> tuple[list[Share], I64]:
        """Shares of any phase, and their ns by time bin: shares x bins. Bins ascend and do not overlap."""
        edges = np.unique(np.concatenate((start_ns, end_ns)))
        shares: dict[tuple[int, ...], int] = {}
        rows: list[I64] = []
        for some in _parts(pieces):
            at = np.minimum(np.searchsorted(end_ns, some.begin, side="right"), start_ns.size - 1)
            some = _rows(some, (start_ns[at] < some.end) & (end_ns[at] > some.begin))
            some = cut_at(some, edges)
            at = np.searchsorted(start_ns, some.begin, side="right") - 1
            inside = (at >= 0) & (some.begin < end_ns[np.maximum(at, 0)])
            some, at = _rows(some, inside), at[inside]
            if not some.begin.size:
                continue
            columns = self._columns(some)
            columns[0] = np.full(at.size, OUTSIDE, dtype=np.int64)
            groups = group(columns)
            number = np.zeros(groups.n, dtype=np.int64)
            for g, first in enumerate(groups.first.tolist()):
                key = tuple(int(column[first]) for column in columns)
                number[g] = shares.setdefault(key, len(shares))
                if number[g] == len(rows):
                    rows.append(np.zeros(start_ns.size, dtype=np.int64))
            ns = np.zeros((len(rows), start_ns.size), dtype=np.int64)
            np.add.at(ns, (number[groups.of_row], at), some.ns)
            for row, more in zip(rows, ns, strict=True):
                row += more
        found = [
            replace(self._new(key).share, ns=int(row.sum())) for key, row in zip(shares, rows, strict=True)
        ]
        return found, np.array(rows, dtype=np.int64).reshape(len(rows), start_ns.size)

    def _own_waits(self, pieces: Pieces) -> None:
        """Time of each root with each sleep: of its own, or of whom it waited for of its own will."""
        asleep = np.flatnonzero(self._intervals.state[pieces.own] == State.ASLEEP)
        own = pieces.own[asleep]
        sleeps = group([pieces.root[asleep], self._intervals.whole[own]])
        ns = np.zeros(sleeps.n, dtype=np.int64)
        np.add.at(ns, sleeps.of_row, pieces.ns[asleep])
        self._own.append((self._causes.code[own[sleeps.first]], ns))

    def own_waits(self) -> list[OwnWaits]:
        """The roots' sleeps by cause, longest first."""
        if not self._own:
            return []
        code, ns = (np.concatenate([part[i] for part in self._own]) for i in (0, 1))
        found = []
        for one in np.unique(code).tolist():
            mine = ns[code == one]
            waited = self._causes.waited[one]
            found.append(OwnWaits(waited, int(mine.size), int(mine.sum()), int(mine.max())))
        return sorted(found, key=lambda waits: (-waits.ns, waits.waited.cause, waits.waited.place))

    def shares(self) -> list[Share]:
        """All sums, longest first."""
        found = [share.made() for share in self._shares.values()]
        return sorted(found, key=lambda share: (-share.ns, share.kind, share.role, share.name))

    def over_time(self) -> dict[str, F64]:
        """Mean number of roots at once by group, per time bin; groups of GROUPS without time are left out."""
        lengths_ns = np.diff(self._timeline.edges_ns)
        return {group: ns / lengths_ns for group, ns in zip(GROUPS, self._ns_by_bin, strict=True) if ns.any()}

    def _new(self, key: tuple[int, ...]) -> _Sum:
        """A sum of no time."""
        phase, own, is_own, kind, thread, work, cause, label, comm, event, why, is_below = key
        role, name = self._whose.of(thread, work, self._occupancy.role.labels)
        if label >= 0:
            role, name = "", self._requests.comm.labels[comm]
        elif kind == Kind.UNLOGGED:
            role, name = OTHER, NOT_LOGGED
        nothing = Waited("none", "")
        share = Share(
            phase=self._phase_names[phase] if phase >= 0 else "",
            own=self._causes.waited[own] if own >= 0 else nothing,
            is_own=bool(is_own),
            kind=Kind(kind),
            role=role,
            name=name,
            cause=self._causes.waited[cause] if cause >= 0 else nothing,
            request=self._requests.label.labels[label] if label >= 0 else "",
            is_below=bool(is_below),
            event=(self._event.kind.labels[event], self._event.why.labels[why])
            if self._event is not None and event >= 0
            else ("", ""),
            ns=0,
            weak_ns=0,
            pieces=0,
        )
        return _Sum(share, GROUPS.index(end_of(share)[0]))


@dataclass
class _Sum:
    """Time of the pieces that are alike. end: index in GROUPS."""

    share: Share
    end: int
    ns: int = 0
    weak_ns: int = 0
    pieces: int = 0

    def add(self, ns: int, weak_ns: int, pieces: int) -> None:
        """Add pieces."""
        self.ns, self.weak_ns, self.pieces = self.ns + ns, self.weak_ns + weak_ns, self.pieces + pieces

    def made(self) -> Share:
        """The share."""
        return replace(self.share, ns=self.ns, weak_ns=self.weak_ns, pieces=self.pieces)


@dataclass(frozen=True)
class Whose:
    """Role and name of the thread at the end of a chain."""

    owners: Owners
    works: WorkRoles

    def of(self, thread: int, work: int, labels: Sequence[str]) -> tuple[str, str]:
        """Of one that is not logged by the code of its role, below NONE; NOT_SEEN: nobody knows whose."""
        if thread >= 0:
            return self.works.of(thread, work)
        label = "unknown" if thread == NOT_SEEN else labels[NONE - 1 - thread] if thread < NONE else ""
        return (label if label in (*ROLES, IDLE) else OTHER), UNLOGGED_NAMES.get(label, NOT_LOGGED)


def _names_of(phases: Phases | None) -> tuple[list[str], I64]:
    """Names of phases, and the number of the name by row of the phase; the last entry is OUTSIDE's."""
    if phases is None:
        return [], np.array([OUTSIDE])
    names = list(dict.fromkeys(phases.name))
    numbers = {name: i for i, name in enumerate(names)}
    return names, np.array([*(numbers[name] for name in phases.name), OUTSIDE], dtype=np.int64)
