# SPDX-License-Identifier: BSD-2-Clause
"""Lock spinning that no tracepoint shows, and where holders ran, from CPU samples.

A sample stands for its period of one CPU's time; the interval is Poisson's for the number of samples.
Estimates are reported separately and never added to the traced times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.locks import lock_names
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.locks.waits_by_stack import group
from analysis.tables.lock import number
from analysis.tables.lock_sample import LockSample

DEFINITION = (
    "unseen: CPU samples in spinning functions x sampling period; in brackets the 95 % Poisson interval (no"
    " sample: the rule of three). The sampling timer waits while interrupts are off, as they often are where"
    " CPUs spin: unseen is a lower bound. Unseen spinning is CPU time, never added to the traced spinning."
    " Row: a class of locks where caller and kind of spinning fit exactly one class, else the caller."
)
EXACT_UP_TO = 200  # samples; beyond, Wilson and Hilferty's approximation is right to 0.1 %


def _below(n: int, mean: float) -> float:
    """P(X <= n) of Poisson's law."""
    term = total = math.exp(-mean)
    for k in range(1, n + 1):
        term *= mean / k
        total += term
    return total


def _solve(n: int, probability: float) -> float:
    """The mean at which P(X <= n) is this."""
    low, high = 0.0, 2.0 * n + 20
    for _ in range(60):
        middle = (low + high) / 2
        if _below(n, middle) > probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def poisson_95(n: int) -> tuple[float, float]:
    """The 95 % interval (Garwood's, exact) for the mean of which n were counted. None counted: one-sided."""
    if n <= 0:
        return 0.0, 3.0
    if n <= EXACT_UP_TO:
        return _solve(n - 1, 0.975), _solve(n, 0.025)
    z = 1.959963984540054

    def cube(k: int, sign: float) -> float:
        return float(k * (1 - 1 / (9 * k) + sign * z / (3 * math.sqrt(k))) ** 3)

    return cube(n, -1), cube(n + 1, 1)


@dataclass(frozen=True)
class Estimate:
    """CPU time by samples, with its 95 % interval, in ns."""

    samples: int
    ns: float
    low_ns: float
    high_ns: float


def estimate(samples: int, ns: float, period_ns: float = 0.0) -> Estimate:
    """Estimate of samples that stand for ns in all. period_ns: of one sample, used if there are none."""
    low, high = poisson_95(samples)
    period = ns / samples if samples else period_ns
    return Estimate(samples, ns, low * period, high * period)


@dataclass(frozen=True)
class SpinRow:
    """Spinning unseen by the tracepoints. key: the class it belongs to; None: several fit, or none does."""

    type: str
    name: str
    key: tuple[str, str] | None
    path: str
    seen: Estimate
    workload_samples: int


@dataclass(frozen=True)
class HoldRow:
    """Where holders of a lock that others waited for ran."""

    name: str
    stack_id: int
    seen: Estimate


@dataclass(frozen=True)
class SpinStack:
    """Unseen spinning of one call path, for the folded stacks."""

    stack_id: int
    type: str
    name: str
    ns: float


@dataclass(frozen=True)
class Samples:
    """Estimates from the samples of a run: unseen and traced spinning, and holding."""

    period_ns: int  # the most frequent sampling period
    unseen: Estimate
    unseen_workload: Estimate
    also_traced: Estimate  # spinning that the tracepoints show too: what they measured, by other means
    spins: list[SpinRow]
    spin_stacks: list[SpinStack]
    holding: Estimate
    holds: list[HoldRow]


def _classes_of_caller(
    waits: LockWaits | None, stacks: Mapping[int, list[str]]
) -> dict[tuple[str, str], set[int]]:
    """By (kind, calling function): rows of waits on locks of that kind from that function."""
    classes: dict[tuple[str, str], set[int]] = {}
    if waits is None:
        return classes
    groups = group([waits.row_of_path, waits.paths.stack_id])
    for at in groups.first.tolist():
        outside = lock_names.callers(stacks.get(int(waits.paths.stack_id[at]), []))
        if outside:
            row = int(waits.row_of_path[at])
            classes.setdefault((waits.rows[row].kind, lock_names.symbol(outside[0])), set()).add(row)
    return classes


def _match(waits: LockWaits | None, rows: set[int], mode: str) -> tuple[str, str] | None:
    if waits is None:
        return None
    fit = {waits.rows[row].key for row in rows if not mode or waits.rows[row].mode == mode}
    return next(iter(fit)) if len(fit) == 1 else None


def _sum(samples: LockSample, rows: np.ndarray) -> Estimate:
    ns = (samples.count[rows] * samples.period_ns[rows].astype(np.float64)).sum()
    period = float(np.median(samples.period_ns)) if samples.period_ns.size else 0.0
    return estimate(int(samples.count[rows].sum()), float(ns), period)


def measure_samples(samples: LockSample, waits: LockWaits | None, stacks: Mapping[int, list[str]]) -> Samples:
    """Sum the samples, and assign each call path to the class of locks it fits."""
    unseen = samples.doing.is_("spin_unseen")
    by_caller = _classes_of_caller(waits, stacks)
    weight = samples.count * samples.period_ns.astype(np.float64)
    spins: dict[tuple[str, str, tuple[str, str] | None], list[float]] = {}
    longest: dict[tuple[str, str, tuple[str, str] | None], tuple[float, str]] = {}
    spin_stacks = []
    at = np.flatnonzero(unseen)
    groups = group([samples.stack_id[at]])
    count, time = groups.sums(samples.count[at]), groups.sums(weight[at])
    own = groups.sums(np.where(samples.in_workload, samples.count, 0)[at])
    for g, first in enumerate(groups.first.tolist()):
        stack_id = int(samples.stack_id[at[first]])
        frames = stacks.get(stack_id, [])
        kind, mode = lock_names.spinning_kind(frames)
        outside = lock_names.callers(frames)
        caller = lock_names.symbol(outside[0]) if outside else ""
        key = _match(waits, by_caller.get((kind, caller), set()), mode)
        type_ = key[0] if key else lock_names.perf_type(kind or "unknown", mode)
        name = key[1] if key else (f"{caller}()" if caller else lock_names.NO_PATH)
        ns = float(time[g])
        sums = spins.setdefault((type_, name, key), [0.0, 0.0, 0.0])
        for i, value in enumerate((count[g], ns, own[g])):
            sums[i] += float(value)
        path = " < ".join(lock_names.symbols(frames)[:4])
        longest[type_, name, key] = max(longest.get((type_, name, key), (0.0, "")), (ns, path))
        spin_stacks.append(SpinStack(stack_id, type_, name, ns))
    rows = [
        SpinRow(type_, name, key, longest[type_, name, key][1], estimate(round(s[0]), s[1]), round(s[2]))
        for (type_, name, key), s in spins.items()
    ]
    holding = samples.doing.is_("holding")
    periods, counts = np.unique(samples.period_ns, return_counts=True)
    return Samples(
        period_ns=int(periods[counts.argmax()]) if periods.size else 0,
        unseen=_sum(samples, unseen),
        unseen_workload=_sum(samples, unseen & samples.in_workload),
        also_traced=_sum(samples, samples.doing.is_("spin_seen")),
        spins=sorted(rows, key=lambda r: (-r.seen.ns, r.type, r.name)),
        spin_stacks=spin_stacks,
        holding=_sum(samples, holding),
        holds=_holds(samples, holding, waits),
    )


def _holds(samples: LockSample, holding: np.ndarray, waits: LockWaits | None) -> list[HoldRow]:
    at = np.flatnonzero(holding)
    if not at.size:
        return []
    groups = group([samples.lock_id[at], samples.stack_id[at]])
    count = groups.sums(samples.count[at])
    ns = groups.sums(samples.count[at] * samples.period_ns[at].astype(np.float64))
    merged: dict[tuple[str, int], list[float]] = {}
    for g, first in enumerate(groups.first.tolist()):
        lock_id, stack_id = int(samples.lock_id[at[first]]), int(samples.stack_id[at[first]])
        name = waits.lock_label(lock_id) if waits is not None else f"lock {number(lock_id)}"
        sums = merged.setdefault((name, stack_id), [0.0, 0.0])
        sums[0] += count[g]
        sums[1] += ns[g]
    rows = [HoldRow(name, stack, estimate(round(s[0]), s[1])) for (name, stack), s in merged.items()]
    return sorted(rows, key=lambda r: (-r.seen.ns, r.name, r.stack_id))
