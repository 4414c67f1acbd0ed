# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits by class of lock: count, spinning, sleeping, and callers.

Wait: contention begin to contention end, split into spinning and sleeping. Spin share: time spent spinning
/ (CPUs x elapsed), in percent (Bryant 2002, table 1). Sleeping waiters: time slept / elapsed, that is the
mean number of threads asleep on a lock. Waits count in the bin where they end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.locks import lock_names
from analysis.measures.locks.waits_by_stack import Groups, Scaled, StackWaits, by_path, group, scale
from analysis.tables.lock import NOTHING_KNOWN, Lock, number
from analysis.tables.lock_wait import NO_STACK, NOT_SAMPLED, LockWait
from analysis.tables.store import I64

DEFINITION = (
    "wait: from contention begin to contention end, split into spinning and sleeping, counted at its end."
    " Spin share: time spinning / (CPUs x elapsed), as in Bryant 2002, table 1. Row: one class of locks (n"
    " locks) in one mode: all locks of one name; locks without a name by the first caller outside the lock"
    " primitives. Types: as in `perf lock contention`; R: waits to read, W: waits to write."
)
TOP_SERIES = 4  # locks with a colour of their own, in each of two panels


@dataclass(frozen=True)
class LockRow:
    """Waits on the locks of one class in one mode, scaled up where call paths were sampled."""

    kind: str
    mode: str
    name: str
    named_by: str  # "": by caller only; else symbol, percpu, slab, call path, unknown
    callers: str  # the call path that waited longest: from the first caller outward
    locks: int
    waits: int
    failed: int
    spin_ns: int
    sleep_ns: int
    max_ns: int
    workload_waits: int
    workload_spin_ns: int
    workload_sleep_ns: int
    sampled_share: float  # share of the waiting time whose call path was recorded; 1: all

    @property
    def type(self) -> str:
        """Type as `perf lock contention` writes it, such as rwsem:W."""
        return lock_names.perf_type(self.kind, self.mode)

    @property
    def total_ns(self) -> int:
        """Spinning and sleeping together."""
        return self.spin_ns + self.sleep_ns

    @property
    def key(self) -> tuple[str, str]:
        """Type and name: the same class in any run."""
        return self.type, self.name

    @property
    def is_estimate(self) -> bool:
        """Whether the sums are scaled from sampled call paths; sums by name are exact."""
        return not self.named_by and self.sampled_share < 1


@dataclass(frozen=True)
class Instance:
    """One lock of a class that lies in an inode."""

    lock_id: int
    type: str
    name: str
    ino: int
    dev: str
    inodes: int
    path: str  # "": the file is gone, or paths were not resolved
    device: str  # "7:9": the inode is that block device's own; "": an inode of a file system
    waits: int
    spin_ns: int
    sleep_ns: int


@dataclass(frozen=True)
class LockWaits:
    """Lock waits by class, call path, inode and time bin. rows: a class and mode each, longest wait first."""

    rows: list[LockRow]
    paths: StackWaits
    row_of_path: I64  # index in rows of each row of paths
    instances: list[Instance]
    sleep_series: dict[
        tuple[str, str], F64
    ]  # threads asleep, by row.key; of TOP_SERIES rows, others under OTHERS
    spin_series: dict[tuple[str, str], F64]  # CPUs spinning
    names: Mapping[int, Lock]
    rows_of_lock: dict[int, int]  # by id, the row in which it was waited on longest

    @property
    def total_ns(self) -> int:
        """Spinning and sleeping on all locks."""
        return sum(row.total_ns for row in self.rows)

    def lock_label(self, lock_id: int) -> str:
        """Kind and name of a lock by its id, its mode left out."""
        row = self.rows_of_lock.get(lock_id)
        if row is not None:
            return f"{lock_names.perf_type(self.rows[row].kind, '')} {self.rows[row].name}"
        lock = self.names.get(lock_id, NOTHING_KNOWN)
        kind = lock_names.perf_type(lock.kind or "lock", "")
        return f"{kind} {lock.name}" if lock.name else f"{kind} {number(lock_id)}"


OTHERS = ("", "others")


def _label(lock: Lock, stack_id: int, frames: list[str]) -> str:
    if lock.name:
        return lock.name
    inside = lock.type or lock.slab
    suffix = f" [{inside}]" if inside else ""
    outside = lock_names.callers(frames)
    if outside:
        return lock_names.caller_name(outside[0]) + suffix
    if stack_id == NOT_SAMPLED:
        return lock_names.NOT_SAMPLED + suffix
    return lock_names.NO_PATH + suffix  # not the lock's number: another run gives it to another lock


def _classes(
    paths: StackWaits, names: Mapping[int, Lock], stacks: Mapping[int, list[str]]
) -> tuple[list[tuple[str, str, str]], I64]:
    """(kind, mode, name) of each class, and the class of each row of paths."""
    named = np.array([i for i, lock in names.items() if lock.name], dtype=np.uint64)
    stack_id = np.where(np.isin(paths.lock_id, named), NO_STACK, paths.stack_id)
    groups = group([paths.lock_id, paths.kind.codes, paths.mode.codes, stack_id])
    classes: dict[tuple[str, str, str], int] = {}
    class_of_group = np.zeros(groups.n, dtype=np.int64)
    for g, row in enumerate(groups.first.tolist()):
        lock_id, stack = int(paths.lock_id[row]), int(stack_id[row])
        name = _label(names.get(lock_id, NOTHING_KNOWN), stack, stacks.get(stack, []))
        key = (
            paths.kind.labels[paths.kind.codes[row]],
            paths.mode.labels[paths.mode.codes[row]],
            name,
        )
        class_of_group[g] = classes.setdefault(key, len(classes))
    return list(classes), class_of_group[groups.of_row]


def _heaviest(of_row: I64, n: int, weight: F64) -> I64:
    """Per group the row of the largest weight, the first among equals. No group may be empty."""
    order = np.lexsort((np.arange(of_row.size), -weight, of_row))
    starts = np.searchsorted(of_row[order], np.arange(n))
    return np.asarray(order[starts], dtype=np.int64)


def _rows(
    keys: list[tuple[str, str, str]],
    of_path: I64,
    paths: StackWaits,
    names: Mapping[int, Lock],
    stacks: Mapping[int, list[str]],
) -> list[LockRow]:
    n = len(keys)
    if not n:
        return []

    def sums(values: F64) -> F64:
        return np.bincount(of_path, values, n).astype(np.float64)

    own = paths.in_workload
    count, failed, spin, sleep = (sums(v) for v in (paths.count, paths.failed, paths.spin_ns, paths.sleep_ns))
    own_count, own_spin, own_sleep = (
        sums(np.where(own, v, 0)) for v in (paths.count, paths.spin_ns, paths.sleep_ns)
    )
    sampled_ns = sums(paths.seen_ns)
    longest = np.zeros(n, dtype=np.int64)
    np.maximum.at(longest, of_path, paths.max_ns)
    instances = np.bincount(of_path[group([of_path, paths.lock_id]).first], minlength=n)
    # the call path that waited longest, over all instances and holders
    by_stack = group([of_path, paths.stack_id])
    heaviest = _heaviest(of_path[by_stack.first], n, by_stack.sums(paths.total_ns))
    stack_of = paths.stack_id[by_stack.first][heaviest]
    lock_of = paths.lock_id[_heaviest(of_path, n, paths.total_ns)]
    rows = []
    for i, (kind, mode, name) in enumerate(keys):
        named_by = names.get(int(lock_of[i]), NOTHING_KNOWN).named_by
        path = lock_names.symbols(stacks.get(int(stack_of[i]), []))
        total = float(spin[i] + sleep[i])
        rows.append(
            LockRow(
                kind=kind,
                mode=mode,
                name=name,
                named_by=named_by,
                callers=" < ".join((path if named_by else path[1:])[:4]),
                locks=int(instances[i]),
                waits=round(count[i]),
                failed=round(failed[i]),
                spin_ns=round(spin[i]),
                sleep_ns=round(sleep[i]),
                max_ns=int(longest[i]),
                workload_waits=round(own_count[i]),
                workload_spin_ns=round(own_spin[i]),
                workload_sleep_ns=round(own_sleep[i]),
                sampled_share=min(float(sampled_ns[i]) / total, 1.0) if total else 1.0,
            )
        )
    return rows


def _instances(
    rows: list[LockRow],
    row_of_path: I64,
    paths: StackWaits,
    names: Mapping[int, Lock],
    inodes: Mapping[tuple[str, int], str],
) -> list[Instance]:
    """Locks that lie in an inode, longest wait first, at most 1000."""
    in_inode = np.array([i for i, lock in names.items() if lock.ino], dtype=np.uint64)
    at = np.flatnonzero(np.isin(paths.lock_id, in_inode))
    if not at.size:
        return []
    groups = group([row_of_path[at], paths.lock_id[at]])
    count, spin, sleep = (groups.sums(v[at]) for v in (paths.count, paths.spin_ns, paths.sleep_ns))
    order = np.argsort(-(spin + sleep), kind="stable")[:1000]
    instances = []
    for g in order.tolist():
        first = at[groups.first[g]]
        lock_id = int(paths.lock_id[first])
        lock, row = names[lock_id], rows[row_of_path[first]]
        instances.append(
            Instance(
                lock_id=lock_id,
                type=row.type,
                name=row.name,
                ino=lock.ino,
                dev=lock.dev,
                inodes=lock.inodes,
                path=inodes.get((lock.dev, lock.ino), ""),
                device=lock.device,
                waits=round(count[g]),
                spin_ns=round(spin[g]),
                sleep_ns=round(sleep[g]),
            )
        )
    return instances


def _series(
    waits: LockWait,
    values: F64,
    weights: list[int],
    row_of_wait: I64,
    rows: list[LockRow],
    timeline: Timeline,
) -> dict[tuple[str, str], F64]:
    """Seconds waited per second and time bin: of the TOP_SERIES heaviest rows, and of all others together."""
    order = sorted(range(len(rows)), key=lambda i: (-weights[i], rows[i].key))
    top = [i for i in order[:TOP_SERIES] if weights[i]]
    slot = np.full(len(rows) + 1, len(top), dtype=np.int64)
    slot[top] = np.arange(len(top))
    bins = timeline.index(waits.bin_ns + waits.bin_length_ns // 2)
    sums = np.bincount(slot[row_of_wait] * timeline.bins + bins, values, (len(top) + 1) * timeline.bins)
    rates = sums.reshape(len(top) + 1, timeline.bins) / timeline.lengths_s / 1e9
    series = {rows[i].key: rates[s] for s, i in enumerate(top)}
    if rates[-1].any():
        series[OTHERS] = rates[-1]
    return series


def measure_locks(
    waits: LockWait,
    names: Mapping[int, Lock],
    stacks: Mapping[int, list[str]],
    inodes: Mapping[tuple[str, int], str],
    timeline: Timeline,
) -> LockWaits:
    """Lock waits of a run by class, by call path, by inode and over time."""
    scaled: Scaled = scale(waits)
    found: tuple[StackWaits, Groups] = by_path(waits, scaled)
    paths, groups = found
    keys, of_path = _classes(paths, names, stacks)
    unsorted = _rows(keys, of_path, paths, names, stacks)
    order = sorted(range(len(keys)), key=lambda i: (-unsorted[i].total_ns, unsorted[i].key))
    rank = np.zeros(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    rows = [unsorted[i] for i in order]
    row_of_path = rank[of_path]
    row_of_wait = row_of_path[groups.of_row]
    by_lock = group([paths.lock_id])
    heaviest = _heaviest(by_lock.of_row, by_lock.n, paths.total_ns)
    return LockWaits(
        rows=rows,
        paths=paths,
        row_of_path=row_of_path,
        instances=_instances(rows, row_of_path, paths, names, inodes),
        sleep_series=_series(waits, scaled.sleep_ns, [r.sleep_ns for r in rows], row_of_wait, rows, timeline),
        names=names,
        rows_of_lock=dict(zip(paths.lock_id[heaviest].tolist(), row_of_path[heaviest].tolist(), strict=True)),
        spin_series=_series(waits, scaled.spin_ns, [r.spin_ns for r in rows], row_of_wait, rows, timeline),
    )


@dataclass(frozen=True)
class KindSum:
    """Waits on all locks of one kind."""

    waits: int
    spin_ns: int
    sleep_ns: int


def by_kind(rows: list[LockRow] | None) -> dict[str, KindSum] | None:
    """The sums by kind of lock, longest total wait first; None without a recording."""
    if rows is None:
        return None
    sums = {
        kind: KindSum(
            sum(r.waits for r in rows if r.kind == kind),
            sum(r.spin_ns for r in rows if r.kind == kind),
            sum(r.sleep_ns for r in rows if r.kind == kind),
        )
        for kind in dict.fromkeys(row.kind for row in rows)
    }
    return dict(sorted(sums.items(), key=lambda item: -(item[1].spin_ns + item[1].sleep_ns)))


@dataclass(frozen=True)
class SpinShare:
    """Time spinning / (CPUs x elapsed): of the whole machine, as in the paper, and of the workload."""

    machine: float
    workload: float


def spin_share(rows: list[LockRow], cpus: int, elapsed_s: float) -> SpinShare:
    """The spin share (0..1) of these rows together."""
    all_ns = cpus * elapsed_s * 1e9
    return SpinShare(
        sum(row.spin_ns for row in rows) / all_ns, sum(row.workload_spin_ns for row in rows) / all_ns
    )


def unnamed_share(rows: list[LockRow]) -> float | None:
    """Share of the waiting time on locks that only a caller names (0..1); None: no waits."""
    total = sum(row.total_ns for row in rows)
    return sum(row.total_ns for row in rows if not row.named_by) / total if total else None


def _middle(waits: LockWait) -> I64:
    return np.asarray(waits.bin_ns + waits.bin_length_ns // 2)


def sleepers(waits: LockWait, timeline: Timeline) -> F64:
    """Mean number of threads asleep on a lock, per time bin."""
    return timeline.rates(_middle(waits), waits.sleep_ns) / 1e9


def spin_share_pct(waits: LockWait, timeline: Timeline, cpus: int) -> F64:
    """Spin share per time bin, in percent of all CPU time."""
    return timeline.rates(_middle(waits), waits.spin_ns) / 1e9 / cpus * 100
