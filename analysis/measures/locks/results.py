# SPDX-License-Identifier: BSD-2-Clause
"""Results of the lock tables: waits by lock, waiters, holders, samples of spinning and holding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.locks import lock_holders, lock_samples, lock_waiters, lock_waits
from analysis.rundir.tested import TestedFilesystem
from analysis.tables.load import Tables
from analysis.tables.lock_wait import LockWait


@dataclass(frozen=True)
class LockResults:
    """Waits and samples of the tasks that are shown; waiters are of all tasks."""

    waiters: lock_waiters.Waiters | None  # None: no waits were recorded
    shows_all: bool  # the waits of all tasks are shown, not only the workload's and its file system's
    waits: lock_waits.LockWaits | None  # the waits by call path; None: not recorded, or left out
    rows: list[lock_waits.LockRow] | None  # one a class of locks, longest wait first; None: not recorded
    holders: lock_holders.Holders | None
    samples: lock_samples.Samples | None  # None: not recorded
    sleeping_threads: F64 | None  # mean number of threads asleep on a lock, per time bin
    spin_pct: F64 | None  # of all CPU time, per time bin; None: how many CPUs there were is not known

    def without_rows(self) -> LockResults:
        """A copy without the arrays that grow with the recording."""
        return replace(self, waits=None)


def measure_waiters(tables: Tables, tested: TestedFilesystem) -> lock_waiters.Waiters | None:
    """Waits of all tasks by owner; None without a lock_wait table."""
    if tables.lock_wait is None:
        return None
    return lock_waiters.measure_waiters(tables.lock_wait, tables.lock_names, tested)


def measure_locks(
    tables: Tables,
    waiters: lock_waiters.Waiters | None,
    everyones_locks: bool,
    timeline: Timeline,
    cpus: int | None,
) -> LockResults:
    """Measure the locks of a run. tables: with only the waits and samples to show (shown_waits)."""
    by_path = _by_path(tables, tables.lock_wait, timeline)
    sleeping = lock_waits.sleepers(tables.lock_wait, timeline) if tables.lock_wait else None
    spin = lock_waits.spin_share_pct(tables.lock_wait, timeline, cpus) if tables.lock_wait and cpus else None
    samples = None
    if tables.lock_sample is not None:
        samples = lock_samples.measure_samples(tables.lock_sample, by_path, tables.stacks)
    return LockResults(
        waiters=waiters,
        shows_all=everyones_locks or waiters is None or not waiters.is_known,
        waits=by_path,
        rows=by_path.rows if by_path else None,
        holders=lock_holders.measure_holders(by_path, tables.stacks) if by_path else None,
        samples=samples,
        sleeping_threads=sleeping,
        spin_pct=spin,
    )


def _by_path(tables: Tables, waits: LockWait | None, timeline: Timeline) -> lock_waits.LockWaits | None:
    if waits is None:
        return None
    inodes: Mapping[tuple[str, int], str] = tables.paths.names if tables.paths else {}
    return lock_waits.measure_locks(waits, tables.lock_names, tables.stacks, inodes, timeline)
