# SPDX-License-Identifier: BSD-2-Clause
"""What grows with N: the parts of an operation's time, queue depth and others; and the bottleneck.

The time of all threads per operation has three parts: waiting for locks (spinning and sleeping, each lock by
itself), CPU time without spinning, and the rest (waiting for the disk, for a CPU, or for what no collector
records). Where that time is the same at every N, throughput scales with N. The bottleneck is the part that
adds most to it between the smallest and the largest N. Bryant finds ext2's from the growth of Lockmeter's
shares in the same way (bryant2002).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.measures.common.statistics import Mean, differ, mean_ci
from analysis.measures.common.timeline import F64
from analysis.measures.compare.per_operation import CPU_TIME, LOCK_WAIT, ONE_LOCK, SPIN, THREAD_TIME
from analysis.measures.scaling.lines import Line
from analysis.measures.statistics import power_law

CPU = "CPU time without spinning"
REST = "the rest: disk, waiting for a CPU"
ALL_LOCKS = "all locks"
OTHERS = ("queue depth, mean", "disk active", "CPU time spinning")  # causes that are no part of the time
LEAST_SHARE = 0.01  # of an operation's time, at some N
DEFINITION = (
    "cost: time per operation, of all threads together (N threads that never wait: the same at every N);"
    " share: of the whole at the largest N; added: share in what the whole gains from the smallest to the"
    " largest N; exponent: cost ~ N^exponent, least squares in logarithms over the runs with a cost above 0,"
    " +- its 95 % interval. Locks: spinning and sleeping. The bottleneck: the part that grows and adds most."
    " *: runs lost events."
)
CAUTION = (
    "This is arithmetic, not a forecast: in Bryant 2002 a patch cured ext2's second lock (run queue);"
    " spinning on the first (big kernel lock) went from 30 to 70 % of all CPU time and ext2 got 30 % slower."
    " Cure the first lock first, then measure again."
)


@dataclass(frozen=True)
class Cost:
    """One cause, by N."""

    name: str  # of a lock its kind and name
    unit: str
    means: Mapping[int, Mean]
    trend: power_law.PowerLaw | None
    shares: Mapping[int, float]  # of an operation's time, 0..1; empty: it is no part of that
    is_lock: bool = False
    lossy: bool = False  # runs lost events of its collector

    @property
    def added(self) -> float:
        """What it gains from the smallest to the largest N."""
        return self.means[max(self.means)].value - self.means[min(self.means)].value

    @property
    def grows(self) -> bool:
        """Whether the exponent is above 0: all of its interval, or with two N the exponent itself.

        A cost that is 0 at the smallest N grows unless, by the rule, the mean at the largest is no other.
        """
        first, last = self.means[min(self.means)], self.means[max(self.means)]
        if first.value == 0:
            return last.value > 0 and differ(first, last) is not False
        if self.trend is None:
            return False
        interval = self.trend.b_interval
        return interval.low > 0 if interval is not None else self.trend.b > 0


@dataclass(frozen=True)
class Grown:
    """What grows in one line."""

    costs: tuple[Cost, ...]  # parts by their share at the largest N, largest first; then OTHERS
    bottleneck: Cost | None
    next_lock: Cost | None  # the lock that adds most, except the bottleneck
    why: str  # there is no bottleneck
    added: float = 0.0  # what the whole gains from the smallest to the largest N, ns


def measure_growth(line: Line) -> Grown:
    """The costs of one line."""
    rows = line.rows
    if rows.empty:
        return Grown((), None, None, f"the {line.axis} are of one run: its costs are not told apart by them")
    by_run = rows.drop_duplicates(["task", "measure"]).pivot(index="task", columns="measure", values="value")
    n = rows.drop_duplicates("task").set_index("task").n.reindex(by_run.index).to_numpy(np.float64)
    units = dict(zip(rows.measure, rows.unit, strict=True))
    lossy = set(rows[rows.lossy.astype(bool)].measure)
    others = [
        _cost(name, str(units[name]), n, by_run[name].to_numpy(np.float64), lossy=name in lossy)
        for name in OTHERS
        if name in by_run
    ]
    if THREAD_TIME not in by_run:
        return Grown(tuple(others), None, None, "the number of operations, or of threads, is not known")
    whole = by_run[THREAD_TIME].to_numpy(np.float64)
    whole_means = {
        int(count): float(np.nanmean(whole[n == count])) for count in np.unique(n[np.isfinite(whole)])
    }
    first, last = min(whole_means), max(whole_means)
    added = whole_means[last] - whole_means[first]
    parts = [
        _cost(name, "ns", n, values, whole_means, is_lock, bool(of & lossy))
        for name, values, is_lock, of in _parts(by_run, whole)
    ]
    parts = [part for part in parts if max(part.shares.values(), default=0.0) >= LEAST_SHARE]
    parts.sort(key=lambda part: (-part.shares.get(last, 0.0), part.name))
    costs = (*parts, *others)
    growing = [part for part in parts if part.name != ALL_LOCKS and part.grows and part.added > 0]
    growing.sort(key=lambda part: -part.added)
    if added <= 0 or not growing:
        why = "no part of an operation's time grows"
        return Grown(costs, None, None, why, added)
    next_lock = next((part for part in growing[1:] if part.is_lock), None)
    return Grown(costs, growing[0], next_lock, "", added)


def _parts(by_run: pd.DataFrame, whole: F64) -> Iterable[tuple[str, F64, bool, set[str]]]:
    """Name, values by run in ns, whether it is a lock, and the figures behind it.

    A lock that a run does not state had no waits, or next to none.
    """

    def values(name: str) -> F64:
        return by_run[name].to_numpy(np.float64) if name in by_run else np.full(whole.size, np.nan)

    waits = np.nan_to_num(values(LOCK_WAIT))
    if LOCK_WAIT in by_run:
        yield ALL_LOCKS, waits, False, {LOCK_WAIT}
    for name in sorted(str(name) for name in by_run if str(name).startswith(ONE_LOCK)):
        yield name.removeprefix(ONE_LOCK), np.nan_to_num(values(name)), True, {name}
    cpu = np.clip(values(CPU_TIME) - np.nan_to_num(values(SPIN)), 0, None)
    if CPU_TIME in by_run:
        yield CPU, cpu, False, {CPU_TIME, SPIN}
        yield REST, np.clip(whole - cpu - waits, 0, None), False, {CPU_TIME, LOCK_WAIT}


def _cost(
    name: str,
    unit: str,
    n: F64,
    values: F64,
    whole: Mapping[int, float] | None = None,
    is_lock: bool = False,
    lossy: bool = False,
) -> Cost:
    usable = np.isfinite(values)
    means: dict[int, Mean] = {}
    for count in np.unique(n[usable]):
        mean = mean_ci(values[usable & (n == count)])
        if mean is not None:
            means[int(count)] = mean
    shares = {k: mean.value / whole[k] for k, mean in means.items() if whole and whole.get(k, 0.0) > 0}
    return Cost(name, unit, means, power_law.fit(n, values), shares, is_lock, lossy)
