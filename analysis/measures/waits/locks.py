# SPDX-License-Identifier: BSD-2-Clause
"""Time that the workload lost on each class of locks: asleep by the path, spinning by traces and samples.

Traced waits have an exact time. Spinning that no tracepoint shows (writers of an rwsem that spin until the
owner lets go) is known from CPU samples, with an interval. Both are of all the workload's threads; of the
these only the part on the path counts, by the samples of each thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from analysis.causes.classify import PLACE_LETTERS, function_name
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.locks.lock_waits import Instance, LockRow
from analysis.measures.locks.results import LockResults
from analysis.measures.waits.on_path import cpu_share
from analysis.measures.waits.sleeps import Sleeps
from analysis.tables.load import Tables

SPIN = "spin"
FREEZE = "super_block.s_writers"  # what frozen file systems hold: not in these sleeps


@dataclass
class LostOnLock:
    """Time of the ledger's basis on one class of locks, all modes."""

    name: str
    types: list[str] = field(default_factory=list)  # rwsem:W
    sleep_ns: float = 0.0
    traced_sleep_ns: float = 0.0  # by the lock's tracepoints: until the waiter runs again
    spin_ns: float = 0.0  # traced
    unseen_ns: float = 0.0  # by samples
    unseen_low_ns: float = 0.0
    unseen_high_ns: float = 0.0
    waits: int = 0  # of the workload, traced
    locks: int = 0
    callers: str = ""  # of the longest wait
    longest: LockRow | None = None
    places: set[str] = field(default_factory=set)  # functions that sleep for it

    @property
    def ns(self) -> float:
        """All of it."""
        return self.sleep_ns + self.spin_ns + self.unseen_ns


def lost_on_locks(
    locks: LockResults, sleeps: Sleeps, path: PathResults | NoPath, tables: Tables
) -> list[LostOnLock]:
    """By class, most time first. sleeps: for locks, those of a function shared out as its traced waits."""
    found: dict[str, LostOnLock] = {}
    mine = _spin_share(path, tables)
    for row in locks.rows or []:
        if not row.workload_waits or row.name.startswith(FREEZE):
            continue
        one = found.setdefault(row.name, LostOnLock(row.name))
        one.types.append(row.type)
        one.traced_sleep_ns += row.workload_sleep_ns * mine
        one.spin_ns += row.workload_spin_ns * mine
        one.waits += row.workload_waits
        one.locks = max(one.locks, row.locks)
        if one.longest is None or row.workload_sleep_ns + row.workload_spin_ns > (
            one.longest.workload_sleep_ns + one.longest.workload_spin_ns
        ):
            one.longest, one.callers = row, row.callers
    of_place = _classes_by_place(locks, tables)
    for place, ns, count in sleeps.by(sleeps.place):
        classes = {name: part for name, part in of_place.get(place, {}).items() if name in found}
        total = sum(classes.values())
        for name, part in classes.items():
            found[name].sleep_ns += ns * part / total
            found[name].places.add(place)
        if not total:  # no tracepoint saw it: what the call path says alone
            name = f"{place}()'s lock"
            found[name] = LostOnLock(name, sleep_ns=float(ns), waits=count, callers=place, places={place})
    for spin in locks.samples.spins if locks.samples is not None else []:
        if not spin.workload_samples:
            continue
        name = spin.key[1] if spin.key else spin.name
        one = found.setdefault(name, LostOnLock(name, [spin.type], callers=spin.path))
        part = mine * spin.workload_samples / max(spin.seen.samples, 1)
        one.unseen_ns += spin.seen.ns * part
        one.unseen_low_ns += spin.seen.low_ns * part
        one.unseen_high_ns += spin.seen.high_ns * part
    return sorted(found.values(), key=lambda one: (-one.ns, one.name))


def _classes_by_place(locks: LockResults, tables: Tables) -> dict[str, dict[str, float]]:
    """Sleeping time of the workload's traced waits by function of the call path, and class."""
    waits = locks.waits
    if waits is None:
        return {}
    paths, found = waits.paths, dict[str, dict[str, float]]()
    for at in np.flatnonzero(paths.in_workload & (paths.sleep_ns > 0)).tolist():
        name = waits.rows[int(waits.row_of_path[at])].name
        frames = tables.stacks.get(int(paths.stack_id[at])) or ()
        for place in {function_name(frame)[:PLACE_LETTERS] for frame in frames}:
            sums = found.setdefault(place, {})
            sums[name] = sums.get(name, 0.0) + float(paths.sleep_ns[at])
    return found


def _spin_share(path: PathResults | NoPath, tables: Tables) -> float:
    """Share of the workload's spinning that is on the path; 1 without a path or the table."""
    if not isinstance(path, PathResults) or path.rows is None:
        return 1.0
    share = cpu_share(path.rows, tables, SPIN)
    return 1.0 if share is None else share


def instance_of(locks: LockResults, name: str) -> Instance | None:
    """The lock of this class in an inode that was waited for longest."""
    of_class = [one for one in (locks.waits.instances if locks.waits else []) if one.name == name]
    return max(of_class, key=lambda one: one.spin_ns + one.sleep_ns, default=None)
