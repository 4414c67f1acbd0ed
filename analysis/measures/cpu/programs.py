# SPDX-License-Identifier: BSD-2-Clause
"""Programs outside the workload: their CPU time, and how much of the workload's waiting for a CPU is theirs.

That such a program had the CPU is known of each wait, which one is not: in each time bin the wait is divided
among the programs that ran in it, by their CPU time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import DISK, FILESYSTEM, OTHER, WORKLOAD
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.threads.over_time import sums_over_time
from analysis.measures.threads.parts import ON_CPU
from analysis.tables.thread import ALL_OTHERS, Threads
from analysis.tables.thread_rows import RUNNABLE
from analysis.tables.thread_time import ThreadTime

MOST = 12  # programs told apart, by CPU time; the rest is one
REST = "others"


@dataclass(frozen=True)
class Program:
    """A program outside the workload, all of its processes together."""

    name: str
    cpu_ns: int  # in the recorded time
    taken_ns: float  # of the workload's time ready to run, and of threads that serve it


def measure_programs(times: ThreadTime | None, threads: Threads | None, timeline: Timeline) -> list[Program]:
    """Most taken first; empty without the tables thread and thread_time."""
    if times is None or threads is None:
        return []
    process = {
        int(number): name or comm or REST
        for number, name, comm, is_kernel in zip(
            threads.thread, threads.process, threads.comm, threads.is_kernel_thread, strict=True
        )
        if not is_kernel and number != ALL_OTHERS
    }
    served = times.role.is_in((WORKLOAD, FILESYSTEM, DISK)) & times.state.is_(RUNNABLE) & times.by.is_(OTHER)
    waited = _over_time(times, np.flatnonzero(served), timeline)
    rows = np.flatnonzero(times.role.is_(OTHER) & times.state.is_in(ON_CPU))
    numbers, of_row = np.unique(times.thread[rows], return_inverse=True)
    names = [process.get(number, "") for number in numbers.tolist()]  # "": kernel threads
    cpu: dict[str, int] = {}
    for name, ns in zip(names, np.bincount(of_row, times.ns[rows], numbers.size).tolist(), strict=True):
        if name:
            cpu[name] = cpu.get(name, 0) + round(ns)
    told = sorted(cpu, key=lambda name: (-cpu[name], name))[:MOST]
    name_of = np.array([told.index(name) if name in told else len(told) for name in names] or [0])
    is_program = np.array([bool(name) for name in names] or [False])
    series = []
    for at in range(len(told) + 1):
        mine = rows[(name_of[of_row] == at) & is_program[of_row]]
        series.append(_over_time(times, mine, timeline))
    ran = np.array(series)
    sums = ran.sum(axis=0)
    shares = np.divide(ran, sums, out=np.zeros_like(ran), where=sums > 0)
    taken = (shares * waited).sum(axis=1)
    found = [
        Program(name, cpu[name], float(ns))
        for name, ns in zip(told, taken[: len(told)].tolist(), strict=True)
    ]
    if rest := sum(cpu.values()) - sum(program.cpu_ns for program in found):
        found.append(Program(REST, rest, float(taken[-1])))
    return sorted(found, key=lambda program: (-program.taken_ns, program.name))


def _over_time(times: ThreadTime, rows: np.ndarray, timeline: Timeline) -> F64:
    """Sum of the rows' time per bin, ns."""
    return sums_over_time(
        timeline, times.bin_ns[rows], times.bin_length_ns[rows], times.ns[rows].astype(np.float64)
    )
