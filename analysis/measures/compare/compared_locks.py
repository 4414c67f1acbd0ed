# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits of several runs by class of lock: spin shares, waits per operation.

All sums are over the whole recording. Shares of CPU time are of all tasks (Bryant 2002, table 1); waits per
operation are of the workload's tasks. A class of locks is a kind and a name, all modes together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.measures.common.intervals import union
from analysis.measures.compare.compared_run import Compared
from analysis.measures.locks.lock_holders import STATES
from analysis.measures.locks.lock_names import perf_type
from analysis.measures.locks.lock_waits import LockRow

Lock = tuple[str, str]  # kind as perf calls it, name


@dataclass(frozen=True)
class Sums:
    """Waits on the locks of one class."""

    spin_ns: int
    sleep_ns: int
    is_estimate: bool = False  # scaled up from sampled call paths
    is_by_path: bool = False  # the class's name comes from a call path
    is_unnamed: bool = False  # the class goes by a caller: another class may be the same lock

    @property
    def total_ns(self) -> int:
        """Spinning and sleeping together."""
        return self.spin_ns + self.sleep_ns


NONE = Sums(0, 0)
Locks = Mapping[Lock, Sums]


def add(sums: Iterable[Sums]) -> Sums:
    """The sum; each flag is set if it is set in any of them."""
    addends = list(sums)
    return Sums(
        sum(s.spin_ns for s in addends),
        sum(s.sleep_ns for s in addends),
        any(s.is_estimate for s in addends),
        any(s.is_by_path for s in addends),
        any(s.is_unnamed for s in addends),
    )


def class_of(row: LockRow) -> Lock:
    """Kind and name of the row's class, all modes together."""
    return perf_type(row.kind, ""), row.name


def has_workload(compared: Compared) -> bool:
    """Whether the run had a workload; a watched live system has none."""
    return compared.run.text("workload", "name") not in ("", "watch")


def _by_class(compared: Compared, own: bool) -> Locks | None:
    rows = compared.results.locks.rows
    if rows is None:
        return None
    sums_by_class: dict[Lock, list[Sums]] = {}
    for row in rows:
        spin, sleep = (row.workload_spin_ns, row.workload_sleep_ns) if own else (row.spin_ns, row.sleep_ns)
        sums = Sums(spin, sleep, row.is_estimate, row.named_by == "call path", not row.named_by)
        sums_by_class.setdefault(class_of(row), []).append(sums)
    return {lock: add(class_sums) for lock, class_sums in sums_by_class.items()}


def by_class(compared: Compared) -> Locks | None:
    """Sums by class of lock, of all tasks; None: locks were not recorded."""
    return _by_class(compared, own=False)


def of_workload(compared: Compared) -> Locks | None:
    """Sums by class of lock, of the workload's tasks; without a workload, of all tasks."""
    return _by_class(compared, own=has_workload(compared))


def spin_share(spin_ns: float, compared: Compared) -> float | None:
    """Share of all CPU time, spin_ns / (CPUs x recorded time), 0..1. None: the CPU count is not known."""
    return (
        spin_ns / 1e9 / compared.results.window.elapsed_s / compared.run.cpus if compared.run.cpus else None
    )


@dataclass(frozen=True)
class Operations:
    """Operations of a run: number, time, unit and kind."""

    count: int
    seconds: float  # length of the phases, or of the workload, that did the operations
    unit: str  # "operations the workload marks (create, delete)"
    by_calls: bool  # the operations are system calls; else the workload marked them in phases
    alike: tuple[str, ...]  # equal in runs whose operations are of the same kind

    @property
    def per_s(self) -> float:
        """Operations per second."""
        return self.count / self.seconds


def operations(compared: Compared) -> Operations | None:
    """Operations the workload marked in phases, else its calls on the file system under test; or None."""
    run = compared.run
    work = (run.text("workload", "name"), run.text("workload", "variant"), run.text("words", "CMD"))
    marked = [row for row in compared.results.phases or [] if row.ops > 0]
    if marked and compared.phases is not None:
        begins = zip(compared.phases.start_ns, compared.phases.end_ns, compared.phases.ops, strict=True)
        spans = union([(int(begin), int(end)) for begin, end, ops in begins if ops > 0])
        seconds = sum(end - begin for begin, end in spans) / 1e9
        names = [row.name for row in marked]
        if seconds > 0:
            unit = f"operations the workload marks ({', '.join(names)})"
            return Operations(sum(row.ops for row in marked), seconds, unit, False, (*work, *sorted(names)))
    calls = sum(row.count for row in compared.results.app.calls or [] if row.target == "target")
    if calls and compared.results.window.work_s > 0:
        unit = "file-system calls on the file system under test"
        return Operations(calls, compared.results.window.work_s, unit, True, (*work, "calls"))
    return None


def alike(runs: Sequence[Compared]) -> list[tuple[Operations, list[Compared]]]:
    """The runs grouped by kind of operation, each group with its first run's operations.

    Runs whose operations or locks are not known are left out.
    """
    groups: dict[tuple[str, ...], tuple[Operations, list[Compared]]] = {}
    for compared in runs:
        run_operations = operations(compared) if compared.results.locks.rows is not None else None
        if run_operations is not None:
            groups.setdefault(run_operations.alike, (run_operations, []))[1].append(compared)
    return list(groups.values())


def per_operation_us(ns: float, compared: Compared) -> float | None:
    """The time in microseconds per operation of the run; None: operations not known."""
    run_operations = operations(compared)
    return ns / 1e3 / run_operations.count if run_operations is not None else None


def top(runs: Sequence[Mapping[Lock, float]], most: int, least: float = 0.0) -> list[Lock]:
    """The locks that are among the `most` highest of any run, the highest anywhere first.

    Those of at least `least` somewhere; if there is none, those above 0.
    """
    highest: dict[Lock, float] = {}
    for values in runs:
        for lock in sorted(values, key=lambda lock: (-values[lock], lock))[:most]:
            if values[lock] > 0:
                highest[lock] = max(highest.get(lock, 0.0), values[lock])
    ordered = sorted(highest, key=lambda lock: (-highest[lock], lock))
    return [lock for lock in ordered if highest[lock] >= least] or ordered


@dataclass(frozen=True)
class LongestWaits:
    """The two locks with the longest waits, and the waiting on all locks."""

    first: Lock
    first_sums: Sums
    second: Lock | None
    second_sums: Sums
    total_ns: int  # of all locks

    @property
    def first_share(self) -> float:
        """Share of the first lock in all waiting, 0..1."""
        return self.first_sums.total_ns / self.total_ns

    @property
    def second_share(self) -> float:
        """Share of the second lock in all waiting, 0..1."""
        return self.second_sums.total_ns / self.total_ns

    @property
    def second_share_of_rest(self) -> float | None:
        """Share of the second lock in the waiting without the first, 0..1; None: no other lock has waits."""
        rest = self.total_ns - self.first_sums.total_ns
        return self.second_sums.total_ns / rest if rest else None


def next_lock(locks: Locks) -> LongestWaits | None:
    """The two locks with the longest waits; None: no lock has waits."""
    ordered = sorted(
        ((sums, lock) for lock, sums in locks.items() if sums.total_ns > 0),
        key=lambda item: (-item[0].total_ns, item[1]),
    )
    if not ordered:
        return None
    total = sum(sums.total_ns for sums, _ in ordered)
    second, lock = ordered[1] if len(ordered) > 1 else (NONE, None)
    return LongestWaits(ordered[0][1], ordered[0][0], lock, second, total)


@dataclass(frozen=True)
class ChainedWaits:
    """Waiting for a lock whose holder itself waited for another lock."""

    known_ns: float  # time waited with the holder's state known
    chained_ns: float  # part of known_ns in which the holder waited for another lock
    second: str  # the lock that holders waited for longest
    second_ns: float  # time waited while the holder waited for `second`


def chained_waits(compared: Compared, lock: Lock) -> ChainedWaits | None:
    """Chained waits on one lock; None: holders were not recorded, or no holder waited for a lock."""
    holders, rows = compared.results.locks.holders, compared.results.locks.rows
    if holders is None or rows is None:
        return None
    class_rows = [i for i, row in enumerate(rows) if class_of(row) == lock]
    known_ns = float(holders.state_ns[class_rows, : STATES.index("unknown")].sum()) if class_rows else 0.0
    seconds: dict[str, float] = {}
    for chain in holders.chains:
        if chain.row in class_rows:
            seconds[chain.second] = seconds.get(chain.second, 0.0) + chain.ns
    if not seconds or not known_ns:
        return None
    second = min(seconds, key=lambda name: (-seconds[name], name))
    return ChainedWaits(known_ns, sum(seconds.values()), second, seconds[second])
