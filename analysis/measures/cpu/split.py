# SPDX-License-Identifier: BSD-2-Clause
"""The workload's time on a CPU: own code, kernel, softirqs and spinning; and the kernel's part by call.

Time on a CPU is exact; what it was is told by CPU samples, hence the interval. The time of calls is exact,
too: what a thread did not sleep of it, it ran or was ready to run. Most kernels let a thread run on until it
leaves the kernel, after the end of its call: time awake in calls is time on a CPU as far as that is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.measures.threads.parts import ON_CPU
from analysis.tables.call import Call
from analysis.tables.thread_rows import ASLEEP, RUNNABLE
from analysis.tables.thread_time import ThreadTime

USER, KERNEL, SOFTIRQ, SPIN = "user", "kernel", "irq", "spin"
ASYNCHRONOUS = ("uring_", "aio_")  # beginnings of calls whose time is a request's, not a thread's
Z_975 = 1.96


@dataclass(frozen=True)
class CpuPart:
    """A part of the time on a CPU. low, high: shares, the limits of the 95 % interval (Wilson)."""

    ns: int
    samples: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class CallCpu:
    """Time that threads were awake in one call: ran, or were ready to run."""

    call: str
    target: str
    count: int
    bytes: int
    awake_ns: int


@dataclass(frozen=True)
class CpuSplit:
    """All of the workload's threads together."""

    cpu_ns: int
    ready_ns: int
    samples: int
    parts: dict[str, CpuPart]  # by state; empty: no samples tell
    calls: list[CallCpu]  # most time first; empty: no calls were recorded

    @property
    def cpu_of_awake(self) -> float:
        """Time on a CPU for each unit of time awake in calls: 1, unless the kernel's time is less."""
        awake = sum(one.awake_ns for one in self.calls)
        kernel = self.parts[KERNEL].ns if KERNEL in self.parts else self.cpu_ns
        return min(kernel / awake, 1.0) if awake else 0.0


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson's score interval, which is not empty at 0 or n hits)."""
    if n <= 0:
        return 0.0, 1.0
    share, z2 = hits / n, Z_975**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_975 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def measure_split(times: ThreadTime | None, calls: Call | None) -> CpuSplit | None:
    """None without the table thread_time, or if the workload never ran."""
    if times is None:
        return None
    mine = times.role.is_(WORKLOAD)
    on_cpu = mine & times.state.is_in(ON_CPU)
    cpu_ns = int(times.ns[on_cpu].sum())
    if not cpu_ns:
        return None
    samples = int(times.samples[on_cpu].sum())
    parts = {}
    for state in (USER, KERNEL, SOFTIRQ, SPIN) if samples else ():
        rows = mine & times.state.is_(state)
        ns, hits = int(times.ns[rows].sum()), int(times.samples[rows].sum())
        share = ns / cpu_ns
        low, high = wilson(hits, samples)
        # time is divided by the samples of each thread and bin: its share is not just hits / samples
        parts[state] = CpuPart(ns, hits, share, min(low, share), max(high, share))
    ready_ns = int(times.ns[mine & times.state.is_(RUNNABLE)].sum())
    return CpuSplit(cpu_ns, ready_ns, samples, parts, _calls(times, mine, calls) if calls else [])


def _calls(times: ThreadTime, mine: np.ndarray, calls: Call) -> list[CallCpu]:
    asleep = mine & times.state.is_in((*ASLEEP, "other"))
    found = []
    targets = calls.target.labels
    key = calls.call.codes.astype(np.int64) * len(targets) + calls.target.codes
    for one in np.unique(key).tolist():
        call, target = calls.call.labels[one // len(targets)], targets[one % len(targets)]
        if call.startswith(ASYNCHRONOUS):
            continue
        rows = key == one
        slept = asleep & times.call.is_(call) & times.call_target.is_(target)
        awake = int(calls.total_ns[rows].sum()) - int(times.ns[slept].sum())
        count, size = int(calls.count[rows].sum()), int(calls.bytes[rows].sum())
        found.append(CallCpu(call, target, count, size, max(awake, 0)))
    return sorted((one for one in found if one.awake_ns), key=lambda one: (-one.awake_ns, one.call))
