# SPDX-License-Identifier: BSD-2-Clause
"""A limit on the workload's CPU time (cpu.max, cpu.cfs_quota_us), concluded from when its threads run again.

No counter of a cgroup is recorded. But a thread that used up a quota is put back at the next multiple of the
quota's period, while one that waits for others is put back at any time: the ends of waits are tested for
being in step with a period (Rayleigh's test of their phases, each weighted by the length of its wait).

Measured (6.18): a quota of 10 ms in 100, on a machine whose CPUs were busy all the time: 10.3 ms, R 0.91, 37
waits. A quota of 30 in 100 where others left the workload 29: none, rightly. 80 other runs, 79 of which had
waits for a CPU that others had: none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.measures.critical_path.intervals import State
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.tables.store import I64

PERIODS_MS = (100, 50, 20, 10)  # 100 is the kernel's default
SHORTEST = 0.05  # of the period: shorter waits are not looked at
IN_STEP = 0.05  # of the period, to both sides
MOST_P = 1e-5
LEAST_R = 0.6  # length of the mean vector: 1 is all in step
FEWEST = 8  # waits in step
LEAST_SHARE = 0.01  # of the path


@dataclass(frozen=True)
class Quota:
    """ns: of the ledger's basis, in waits that end in step. ran_ms: CPU time in a period, the median.

    long_waits: all waits of SHORTEST of the period or more; r: length of the mean vector of their ends.
    """

    period_ms: int
    waits: int
    long_waits: int
    ns: int
    ran_ms: float
    r: float


def in_step(end: I64, length: I64, period_ns: int) -> tuple[float, float, np.ndarray]:
    """Length of the mean vector, p, and which ends lie at its phase."""
    weight = length.astype(np.float64)
    phase = 2 * math.pi * (end % period_ns) / period_ns
    whole = float(weight.sum())
    mean = complex((weight * np.exp(1j * phase)).sum()) / whole if whole else 0j
    n = whole**2 / float((weight**2).sum()) if whole else 0.0
    away = np.angle(np.exp(1j * phase) * np.conj(mean)) if abs(mean) else np.full(end.size, math.pi)
    return abs(mean), math.exp(-n * abs(mean) ** 2), np.abs(away) <= 2 * math.pi * IN_STEP


def measure_quota(path: PathResults | NoPath) -> Quota | None:
    """The quota of the first period that fits; None without one, or without the path's rows."""
    if isinstance(path, NoPath) or path.rows is None:
        return None
    ready = sum(share.ns for share in path.shares if share.kind == Kind.READY and share.is_own)
    if ready < LEAST_SHARE * path.total_ns:
        return None
    intervals, owners = path.rows.intervals, path.rows.owners
    mine, ns = [], []
    for pieces in path.rows.pieces:
        waits = np.flatnonzero((pieces.kind == Kind.READY) & (pieces.interval == pieces.own))
        mine.append(pieces.interval[waits].astype(np.int64))
        ns.append(pieces.ns[waits])
    number, of = np.unique(np.concatenate(mine), return_inverse=True)
    on_path = np.zeros(number.size, dtype=np.int64)
    np.add.at(on_path, of, np.concatenate(ns))
    begin, end = intervals.begin[number], intervals.end[number]
    is_workload = np.array([role == WORKLOAD for role in owners.role], dtype=np.bool_)
    ran = np.flatnonzero((intervals.state == State.RUNNING) & is_workload[intervals.thread])
    for period_ms in PERIODS_MS:
        period = period_ms * 1_000_000
        long = np.flatnonzero(end - begin >= SHORTEST * period)
        if long.size < FEWEST:
            continue
        r, p, steps = in_step(end[long], (end - begin)[long], period)
        rows = long[steps]
        if r < LEAST_R or p > MOST_P or rows.size < FEWEST:
            continue
        used = _ran_between(np.sort(end[rows]), period, intervals.begin[ran], intervals.end[ran])
        return Quota(period_ms, int(rows.size), int(long.size), int(on_path[rows].sum()), used, r)
    return None


def _ran_between(ends: I64, period_ns: int, begin: I64, end: I64) -> float:
    """Median CPU time, ms, between ends that are one period apart."""

    def before(t: I64, edges: I64) -> np.ndarray:
        edges = np.sort(edges)
        sums = np.concatenate(([0], np.cumsum(edges - edges[:1].sum())))
        count = np.searchsorted(edges, t)
        return np.asarray(count * (t - edges[:1].sum()) - sums[count])

    ran = before(ends, begin) - before(ends, end)  # CPU time until each end
    apart = np.diff(ends)
    one = (apart > period_ns / 2) & (apart < period_ns * 3 / 2)
    return float(np.median(np.diff(ran)[one])) / 1e6 if one.any() else 0.0
