# SPDX-License-Identifier: BSD-2-Clause
"""Costs per operation of a run: time of all threads, CPU time, and the wait for each lock.

An operation is what compared_locks.operations() counts. Sums are over the workload, all of its tasks
together: with N threads that never wait for each other, the time of all threads per operation is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.measures.compare.compared_locks import Lock, of_workload, operations
from analysis.measures.compare.compared_measures import Measure
from analysis.measures.compare.compared_run import Compared

THREAD_TIME = "time of all threads per operation"
CPU_TIME = "CPU time per operation"
LOCK_WAIT = "wait per operation, all locks"
SPIN = "spin per operation, all locks"  # part of the wait, and of CPU time
ONE_LOCK = "wait per operation: "  # and the lock's kind and name
MOST_LOCKS = 10  # of each run, those with the longest waits
LEAST_SHARE = 0.001  # of the time of all threads: a lock with less explains nothing


def per_operation(runs: Sequence[Compared]) -> list[Measure]:
    """The costs, one value per run; None: not recorded, or the run's operations are not known."""
    return [measure for measure in _measures(runs) if any(measure.values)]


def _measures(runs: Sequence[Compared]) -> Iterable[Measure]:
    counts = [operations(compared) for compared in runs]
    whole = [_threads_ns(compared) for compared in runs]

    def over(values: Sequence[float | None]) -> list[float | None]:
        return [
            None if value is None or count is None else value / count.count
            for value, count in zip(values, counts, strict=True)
        ]

    yield Measure(THREAD_TIME, "ns", over(whole), True)
    yield Measure(CPU_TIME, "ns", over([_cpu_ns(compared) for compared in runs]), True)
    locks = [of_workload(compared) for compared in runs]
    if all(of_run is None for of_run in locks):
        return
    waits = [None if of_run is None else sum(s.total_ns for s in of_run.values()) for of_run in locks]
    spins = [None if of_run is None else sum(s.spin_ns for s in of_run.values()) for of_run in locks]
    yield Measure(LOCK_WAIT, "ns", over(waits), True, ("locks",))
    yield Measure(SPIN, "ns", over(spins), True, ("locks",))
    shown: set[Lock] = set()
    for of_run, time_ns in zip(locks, whole, strict=True):
        longest = sorted((of_run or {}).items(), key=lambda item: (-item[1].total_ns, item[0]))
        shown |= {
            lock for lock, sums in longest[:MOST_LOCKS] if sums.total_ns >= LEAST_SHARE * (time_ns or 0.0)
        }
    for lock in sorted(shown):
        of_lock = [
            None if of_run is None else (of_run[lock].total_ns if lock in of_run else 0) for of_run in locks
        ]
        yield Measure(ONE_LOCK + " ".join(lock), "ns", over(of_lock), True, ("locks",))


def _threads_ns(compared: Compared) -> float | None:
    """Time of the workload times its threads; None: run.json does not state the threads."""
    threads = compared.run.int_("workload", "threads")
    return threads * compared.results.window.work_s * 1e9 if threads and threads > 0 else None


def _cpu_ns(compared: Compared) -> float | None:
    """CPU time of the workload's tasks, as its cgroup counts it."""
    cpu_ns = compared.run.int_("others", "workload_cpu_ns")
    return float(cpu_ns) if cpu_ns is not None and cpu_ns > 0 else None
