# SPDX-License-Identifier: BSD-2-Clause
"""Results of the thread tables: where the threads' time went, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import DISK, FILESYSTEM, WORKLOAD
from analysis.causes.rules import NO_STACK, rules
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.common.window import Window
from analysis.measures.locks.waits_by_stack import group
from analysis.measures.threads.over_time import measure_over_time, sums_over_time
from analysis.measures.threads.parts import NOT_KNOWN, ON_CPU, VOLUNTARY, Part, kinds_of, places_of, sum_parts
from analysis.measures.threads.phases import PhaseTime, measure_phases
from analysis.measures.threads.truth import Truth, measure_truth
from analysis.tables.lock import Lock
from analysis.tables.phase import Phases
from analysis.tables.rows import take
from analysis.tables.store import Categorical
from analysis.tables.thread import Threads
from analysis.tables.thread_time import ThreadTime

SHOWN = (WORKLOAD, FILESYSTEM)
WAITS_FOR_IO = ("read", "write", "journal", "throttle")  # groups of causes that the disk's work ends


@dataclass(frozen=True)
class ThreadRow:
    """All time of one thread; of kworkers and threads of one name together."""

    role: str
    name: str
    threads: int
    cpu_ns: int
    ready_ns: int
    blocked_ns: int
    voluntary_ns: int


@dataclass(frozen=True)
class UnknownStack:
    """A call path that no rule knows."""

    role: str
    stack_id: int  # -1: no stack was recorded
    ns: int
    count: int


@dataclass(frozen=True)
class Bottleneck:
    """How far the apparatus held the workload up."""

    disk_cpus: float | None  # CPUs that the disk's machinery took while most of the workload waited for I/O
    waiting_s: float  # that time


@dataclass(frozen=True)
class ThreadResults:
    """Results of a run's thread tables."""

    parts: list[Part]  # by role and kind, most time first
    places: list[Part]  # the same by place, too
    phases: list[PhaseTime]
    rows: list[ThreadRow]
    unknown: list[UnknownStack]  # of the workload and the file system's threads
    truth: Truth | None
    over_time: Mapping[str, F64]  # mean number of the workload's threads by series, per time bin
    bottleneck: Bottleneck
    workload_threads: int
    cpu_s: float  # CPU time of all threads
    capacity_s: float | None  # CPUs x recorded time

    def of(self, role: str) -> list[Part]:
        """The parts of a role, most time first."""
        return [part for part in self.parts if part.role == role]

    def blocked_ns(self, *roles: str) -> int:
        """Time that the threads of these roles slept, but for want of work or of their own will."""
        return sum(part.ns for part in self.parts if part.role in roles and part.is_blocked)

    def unknown_share(self, *roles: str) -> float | None:
        """Share of that time whose cause is not known; None if there is none."""
        blocked = self.blocked_ns(*roles)
        not_known = sum(part.ns for part in self.parts if part.role in roles and part.kind in NOT_KNOWN)
        return not_known / blocked if blocked else None


def _rows(times: ThreadTime, kinds: Categorical) -> list[ThreadRow]:
    groups = group([times.role.codes, times.comm.codes, times.work_name.codes])
    is_cpu, is_ready = kinds.is_in(ON_CPU), times.state.is_("runnable")
    voluntary = kinds.is_in(VOLUNTARY)
    masks = (is_cpu, is_ready, ~is_cpu & ~is_ready & ~voluntary, voluntary)
    sums = [groups.sums(np.where(mask, times.ns, 0)) for mask in masks]
    pairs = group([groups.of_row, times.thread])
    threads = np.bincount(groups.of_row[pairs.first], minlength=groups.n)
    rows: dict[tuple[str, str], ThreadRow] = {}
    for g, first in enumerate(groups.first.tolist()):
        role = times.role.labels[times.role.codes[first]]
        work = times.work_name.labels[times.work_name.codes[first]]
        comm = times.comm.labels[times.comm.codes[first]]
        name = work or ("kworker" if comm.startswith("kworker/") else comm) or "(others)"
        new = ThreadRow(role, name, int(threads[g]), *(round(one[g]) for one in sums))
        old = rows.get((role, name))
        if old is not None:
            new = ThreadRow(
                role,
                name,
                old.threads + new.threads,
                old.cpu_ns + new.cpu_ns,
                old.ready_ns + new.ready_ns,
                old.blocked_ns + new.blocked_ns,
                old.voluntary_ns + new.voluntary_ns,
            )
        rows[role, name] = new
    return sorted(rows.values(), key=lambda row: (-row.cpu_ns - row.blocked_ns, row.role, row.name))


def _unknown(times: ThreadTime) -> list[UnknownStack]:
    chosen = take(times, np.flatnonzero(times.cause.is_in(NOT_KNOWN) & times.role.is_in(SHOWN)))
    stack_id = np.where(chosen.cause.is_(NO_STACK), -1, chosen.stack_id)
    groups = group([chosen.role.codes, stack_id])
    ns, counts = groups.sums(chosen.ns), groups.sums(chosen.count)
    found = [
        UnknownStack(
            chosen.role.labels[chosen.role.codes[first]], int(stack_id[first]), round(ns[g]), round(counts[g])
        )
        for g, first in enumerate(groups.first.tolist())
    ]
    return sorted(found, key=lambda stack: (-stack.ns, stack.stack_id))


def _bottleneck(times: ThreadTime, kinds: Categorical, timeline: Timeline) -> Bottleneck:
    """CPUs of the disk's machinery in the time bins in which the workload mostly waited for I/O."""
    causes = rules().causes
    io_kinds = [name for name, cause in causes.items() if cause.group in WAITS_FOR_IO]
    mine = times.role.is_(WORKLOAD)

    def threads(mask: np.ndarray) -> F64:
        rows = np.flatnonzero(mask)
        ns = times.ns[rows].astype(np.float64)
        sums = sums_over_time(timeline, times.bin_ns[rows], times.bin_length_ns[rows], ns)
        return np.asarray(sums / 1e9)

    waiting = threads(mine & kinds.is_in(io_kinds))
    active = threads(mine & ~kinds.is_in(VOLUNTARY))
    mostly = (waiting > active / 2) & (active > 0)
    length_s = float(timeline.lengths_s[mostly].sum())
    if not length_s:
        return Bottleneck(None, 0.0)
    disk = threads(times.role.is_(DISK) & kinds.is_in(ON_CPU))
    return Bottleneck(float(disk[mostly].sum()) / length_s, length_s)


def measure_threads(
    times: ThreadTime | None,
    threads: Threads | None,
    phases: Phases | None,
    locks: Mapping[int, Lock],
    timeline: Timeline,
    window: Window,
    cpus: int | None,
) -> ThreadResults | None:
    """Measure the thread tables; None without a thread_time table."""
    if times is None:
        return None
    kinds = kinds_of(times)
    cpu = kinds.is_in(ON_CPU)
    return ThreadResults(
        parts=sum_parts(times, kinds),
        places=sum_parts(times, kinds, places_of(times, locks)),
        phases=measure_phases(times, kinds, phases),
        rows=_rows(times, kinds),
        unknown=_unknown(times),
        truth=measure_truth(times, threads, window.start_ns, window.end_ns) if threads is not None else None,
        over_time=measure_over_time(times, kinds, timeline),
        bottleneck=_bottleneck(times, kinds, timeline),
        workload_threads=int(np.unique(times.thread[times.role.is_(WORKLOAD)]).size),
        cpu_s=int(times.ns[cpu].sum()) / 1e9,
        capacity_s=cpus * window.elapsed_s if cpus else None,
    )
