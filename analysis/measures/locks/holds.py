# SPDX-License-Identifier: BSD-2-Clause
"""Hold times and acquisitions by class of locks, in Lockmeter's columns (Bryant and Hawkes 2000).

Waits come from the lock_wait table, all other columns from the hold table. Without a hold table these columns
are None and `why` has the reason; run.off("holds") has the remedy.

Different from Lockmeter: WAIT includes sleeping as well as spinning, and UTIL of a class of several locks is
that of the busiest lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from analysis.measures.locks.lock_names import perf_type
from analysis.measures.locks.waits_by_stack import group
from analysis.tables.hold import Hold
from analysis.tables.lock import NOTHING_KNOWN, Lock
from analysis.tables.lock_wait import LockWait

DEFINITION = (
    "UTIL: share of the time in which the busiest lock of the class was held (each reader counts, so UTIL can"
    " exceed 100 %). CON: share of acquisitions that waited. HOLD, WAIT: mean (longest)."
    " TOTAL: acquisitions and failed trylocks; of these NOWAIT acquired at once, SPIN waited"
    " (spinning or asleep), REJECT failed as trylocks. A hold counts at its end. Waits that the kernel"
    " does not show (an rwsem writer that acquires while spinning) count as NOWAIT."
)
WHY_NOT_TRACED = {
    "spinlock": "its unlock is inlined in most kernels, and tracing itself takes spinlocks",
    "rwlock": "its unlock is inlined in most kernels",
    "percpu_rwsem": "taking it for reading is inlined: no function to trace",
    "rtmutex": "not traced",
    "unknown": "a kind of lock the kernel does not name",
}
NOT_RECORDED = "acquisitions were not recorded"
NOT_NAMED = "(not named)"


@dataclass(frozen=True)
class HoldRow:
    """One class of locks in one mode. None: not known, `why` says why."""

    kind: str
    mode: str
    name: str
    locks: int  # instances that were taken or waited for
    acquired: int | None
    try_failed: int | None
    holds: int | None
    hold_ns: int | None
    max_hold_ns: int | None
    busiest_hold_ns: int | None  # of the instance that was held longest, all its holds
    waits: int  # contended acquisitions, without waits given up because of a signal
    spin_ns: int
    sleep_ns: int
    max_wait_ns: int
    elapsed_ns: int
    why: str

    @property
    def type(self) -> str:
        """Type as `perf lock contention` writes it, such as rwsem:W."""
        return perf_type(self.kind, self.mode)

    @property
    def util_pct(self) -> float | None:
        """UTIL: share of the time that the busiest lock of the class was held."""
        return _pct(self.busiest_hold_ns, self.elapsed_ns)

    @property
    def con_pct(self) -> float | None:
        """CON: share of acquisitions that waited; at most 100, as the two numbers have different sources."""
        con = _pct(self.waits, self.acquired)
        return None if con is None else min(con, 100.0)

    @property
    def mean_hold_ns(self) -> float | None:
        """HOLD: mean hold time."""
        return self.hold_ns / self.holds if self.hold_ns is not None and self.holds else None

    @property
    def mean_wait_ns(self) -> float | None:
        """WAIT: mean wait time of the acquisitions that waited."""
        return (self.spin_ns + self.sleep_ns) / self.waits if self.waits else None

    @property
    def total(self) -> int | None:
        """TOTAL: all attempts."""
        if self.acquired is None or self.try_failed is None:
            return None
        return self.acquired + self.try_failed

    @property
    def spin_pct(self) -> float | None:
        """SPIN: share of attempts that waited, spinning or asleep, and acquired the lock."""
        if self.acquired is None:
            return None
        return _pct(min(self.waits, self.acquired), self.total)

    @property
    def reject_pct(self) -> float | None:
        """REJECT: share of attempts that are failed trylocks."""
        return _pct(self.try_failed, self.total)

    @property
    def nowait_pct(self) -> float | None:
        """NOWAIT: share of attempts that acquired the lock at once."""
        if self.acquired is None:
            return None
        return _pct(self.acquired - min(self.waits, self.acquired), self.total)


def _pct(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None


@dataclass
class _Class:
    """Running sums of one class of locks."""

    locks: set[int] = field(default_factory=set)
    taken: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # acquired, try_failed, holds, hold_ns
    has_holds: bool = False
    max_hold_ns: int = 0
    busiest_hold_ns: int = 0
    waits: list[int] = field(default_factory=lambda: [0, 0, 0])  # waits, spin_ns, sleep_ns
    max_wait_ns: int = 0


def _name(lock: Lock) -> str:
    inside = lock.type or lock.slab
    return lock.name or (f"{NOT_NAMED} [{inside}]" if inside else NOT_NAMED)


def lockmeter_rows(
    hold: Hold | None, waits: LockWait | None, names: Mapping[int, Lock], elapsed_ns: int
) -> list[HoldRow]:
    """One row per class of locks (name) and mode, longest hold time first, then by wait time.

    All tasks count, inside and outside of the workload's cgroup. elapsed_ns: the recorded time.
    """
    classes: dict[tuple[str, str, str], _Class] = {}
    if hold is not None:
        _add_holds(hold, names, classes)
    if waits is not None:
        _add_waits(waits, names, classes)
    rows = [_row(key, sums, hold is not None, elapsed_ns) for key, sums in classes.items()]
    return sorted(rows, key=lambda r: (-(r.hold_ns or 0), -(r.spin_ns + r.sleep_ns), r.kind, r.mode, r.name))


def _add_holds(hold: Hold, names: Mapping[int, Lock], classes: dict[tuple[str, str, str], _Class]) -> None:
    groups = group([hold.lock_id, hold.kind.codes, hold.mode.codes])
    sums = [groups.sums(values) for values in (hold.acquired, hold.try_failed, hold.holds, hold.hold_ns)]
    longest = np.zeros(groups.n, dtype=np.int64)
    np.maximum.at(longest, groups.of_row, hold.max_hold_ns)
    for g, row in enumerate(groups.first.tolist()):
        lock_id = int(hold.lock_id[row])
        kind, mode = hold.kind.labels[hold.kind.codes[row]], hold.mode.labels[hold.mode.codes[row]]
        class_sums = classes.setdefault((kind, mode, _name(names.get(lock_id, NOTHING_KNOWN))), _Class())
        class_sums.locks.add(lock_id)
        class_sums.has_holds = True
        for i, values in enumerate(sums):
            class_sums.taken[i] += round(values[g])
        class_sums.max_hold_ns = max(class_sums.max_hold_ns, int(longest[g]))
        class_sums.busiest_hold_ns = max(class_sums.busiest_hold_ns, round(sums[3][g]))


def _add_waits(
    waits: LockWait, names: Mapping[int, Lock], classes: dict[tuple[str, str, str], _Class]
) -> None:
    groups = group([waits.lock_id, waits.kind.codes, waits.mode.codes])
    sums = [groups.sums(values) for values in (waits.count - waits.failed, waits.spin_ns, waits.sleep_ns)]
    longest = np.zeros(groups.n, dtype=np.int64)
    np.maximum.at(longest, groups.of_row, waits.max_ns)
    for g, row in enumerate(groups.first.tolist()):
        lock_id = int(waits.lock_id[row])
        kind, mode = waits.kind.labels[waits.kind.codes[row]], waits.mode.labels[waits.mode.codes[row]]
        class_sums = classes.setdefault((kind, mode, _name(names.get(lock_id, NOTHING_KNOWN))), _Class())
        class_sums.locks.add(lock_id)
        for i, values in enumerate(sums):
            class_sums.waits[i] += round(values[g])
        class_sums.max_wait_ns = max(class_sums.max_wait_ns, int(longest[g]))


def _row(key: tuple[str, str, str], sums: _Class, recorded: bool, elapsed_ns: int) -> HoldRow:
    kind, mode, name = key
    why = ""
    if not sums.has_holds:
        why = WHY_NOT_TRACED.get(kind) or ("no acquisition was seen" if recorded else NOT_RECORDED)
    has_holds = sums.has_holds
    return HoldRow(
        kind=kind,
        mode=mode,
        name=name,
        locks=len(sums.locks),
        acquired=sums.taken[0] if has_holds else None,
        try_failed=sums.taken[1] if has_holds else None,
        holds=sums.taken[2] if has_holds else None,
        hold_ns=sums.taken[3] if has_holds else None,
        max_hold_ns=sums.max_hold_ns if has_holds else None,
        busiest_hold_ns=sums.busiest_hold_ns if has_holds else None,
        waits=sums.waits[0],
        spin_ns=sums.waits[1],
        sleep_ns=sums.waits[2],
        max_wait_ns=sums.max_wait_ns,
        elapsed_ns=elapsed_ns,
        why=why,
    )
