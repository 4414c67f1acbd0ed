# SPDX-License-Identifier: BSD-2-Clause
"""CPUs that were idle over time, by the kernel's own count, beside a thread that ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64, Timeline
from analysis.tables.counter import Counter

IDLE = ("cpu.idle_ns", "cpu.iowait_ns")  # a CPU in iowait is idle


@dataclass(frozen=True)
class Beside:
    """Time that a thread ran while other CPUs were idle. What happened within a bin is not known."""

    ran_s: float  # in the bins that were counted
    idle_s: float  # CPU seconds that all CPUs were idle in these
    low_s: float  # in which a CPU was idle beside it, at least
    high_s: float
    spread_s: float  # time that the idle CPUs could have taken off, had the work been divided among them

    @property
    def middle_s(self) -> float:
        """The middle between the limits."""
        return (self.low_s + self.high_s) / 2


def idle_cpus(counter: Counter | None, timeline: Timeline) -> F64 | None:
    """Mean number of idle CPUs per bin, by interpolation of the totals; NaN outside of the samples."""
    if counter is None:
        return None
    edges = timeline.edges_ns.astype(np.float64)
    total = np.zeros(edges.size)
    for name in IDLE:
        t, value = counter.series(name)
        if t.size < 2:
            return None
        total += np.interp(edges, t.astype(np.float64), value.astype(np.float64), np.nan, np.nan)
    return np.asarray(np.diff(total) / np.diff(edges))


def beside(ran: F64, idle: F64, cpus: int, lengths_s: F64) -> Beside:
    """ran: share of each bin in which the thread ran. idle: mean number of idle CPUs per bin.

    While the thread does not run, up to all CPUs are idle; while it runs, at most all but one.
    """
    known = np.isfinite(idle) & np.isfinite(ran)
    ran, idle, lengths_s = np.clip(ran[known], 0, 1), np.clip(idle[known], 0, cpus), lengths_s[known]
    others = max(cpus - 1, 1)
    low = np.clip(idle - cpus * (1 - ran), 0, ran * others)  # CPU seconds a second
    high = np.minimum(idle, ran * others)
    free = np.divide((low + high) / 2, ran, out=np.zeros_like(ran), where=ran > 0)  # CPUs while it ran
    return Beside(
        ran_s=float((ran * lengths_s).sum()),
        idle_s=float((idle * lengths_s).sum()),
        low_s=float((low / others * lengths_s).sum()),
        high_s=float((np.minimum(high, ran) * lengths_s).sum()),
        spread_s=float((ran * free / (1 + free) * lengths_s).sum()),
    )
