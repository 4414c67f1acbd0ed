# SPDX-License-Identifier: BSD-2-Clause
"""CPU time of tracing: of each collector's BPF programs, and of its process.

The kernel times BPF programs in short windows spread over the recording, as timing costs time itself. The
share is the programs' time over the windows' length; its interval comes from how the windows differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.measures.common.statistics import Mean, t_975
from analysis.rundir.run import BpfSums, Run

RECORDER = "the recorder"
DEFINITION = (
    "BPF CPU %: time in the collector's BPF programs / time of all CPUs, timed by the kernel in short windows"
    " spread over the recording; +-: 95 % confidence interval, from the spread of the windows (t; ratio of"
    " sums). The time includes the programs and one clock reading per run, not the call of a program. mean"
    " run time: of the timed runs. user CPU %: CPU time of the collector's process since the recording began,"
    f" system calls included; {RECORDER}: the one process of the collectors above, with its shared work."
    " total %: sum of both."
)


@dataclass(frozen=True)
class Cost:
    """Cost of one collector, as shares of all CPUs' time. None: not measured, or it has no such part."""

    name: str
    bpf: Mean | None
    run_ns: float | None
    user: float | None
    in_user_only: bool  # the collector has nothing in the kernel, no BPF programs either

    @property
    def total(self) -> float | None:
        """Share of BPF programs and user space together; None: either is not known."""
        if self.user is None or (self.bpf is None and not self.in_user_only):
            return None
        return self.user + (self.bpf.value if self.bpf is not None else 0.0)


@dataclass(frozen=True)
class TracingCost:
    """One row per collector that was on; after those of the recorder, the recorder's process as a whole."""

    rows: list[Cost]
    windows: int  # in which BPF programs were timed
    windows_s: float  # together


def bpf_share(run: Run, sums: BpfSums | None) -> Mean | None:
    """The windows' time that is the programs', of all CPUs; half width None: of a single window.

    A ratio of two sums over windows, which are of nearly one length; its variance is that of what each window
    has beyond the ratio times its length.
    """
    windows = run.bpf_windows
    if sums is None or windows is None or windows.count < 1 or windows.wall_ns < 1 or not run.cpus:
        return None
    n, share = windows.count, sums.ns / windows.wall_ns
    half = None
    if n > 1 and sums.ns_squared is not None and sums.ns_wall_ns is not None:
        beyond = sums.ns_squared - 2 * share * sums.ns_wall_ns + share * share * windows.wall_ns_squared
        half = t_975(n - 1) * math.sqrt(max(beyond, 0.0) / (n - 1) * n) / windows.wall_ns / run.cpus
    return Mean(share / run.cpus, half, n)


def measure_cost(run: Run, recorded_s: float) -> TracingCost:
    """What each collector cost. recorded_s: the length of the recording."""
    all_ns = recorded_s * 1e9 * run.cpus if run.cpus else None

    def share(cpu_ns: int | None) -> float | None:
        return cpu_ns / all_ns if cpu_ns is not None and all_ns else None

    def cost(name: str, sums: BpfSums | None, programs: int | None, cpu_ns: int | None) -> Cost:
        bpf, run_ns = None, None
        if programs and sums is not None:
            bpf = bpf_share(run, sums)
            run_ns = sums.ns / sums.runs if sums.runs else None
        return Cost(name, bpf, run_ns, share(cpu_ns), programs == 0)

    recorder_rows: list[Cost] = []
    other_rows: list[Cost] = []
    for name, loss in run.losses.items():
        if loss.is_on:
            rows = other_rows if loss.bpf_programs is None else recorder_rows
            rows.append(cost(name, loss.bpf, loss.bpf_programs, loss.cpu_ns))
    if recorder_rows:
        programs = sum(loss.bpf_programs or 0 for loss in run.losses.values() if loss.is_on)
        cpu_ns = run.recorder_cpu_ns
        if cpu_ns is not None:
            cpu_ns -= run.recorder_start_cpu_ns or 0
        recorder_rows.append(
            cost(RECORDER, run.bpf_windows.all if run.bpf_windows else None, programs, cpu_ns)
        )
    windows = run.bpf_windows
    return TracingCost(
        rows=[*recorder_rows, *other_rows],
        windows=windows.count if windows else 0,
        windows_s=windows.wall_ns / 1e9 if windows else 0.0,
    )
