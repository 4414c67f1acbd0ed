# SPDX-License-Identifier: BSD-2-Clause
"""What others on the machine did while the workload ran: CPU time by program, from /proc before and after.

The CPU time of processes that came and went in between is in that of who waited for them, or of process 1.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.host.kernel import read

_PROC = Path("/proc")
_PF_KTHREAD = 0x00200000  # linux/sched.h
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PROGRAMS_SHOWN = 5
# Fields of /proc/PID/stat behind the name, proc_pid_stat(5) counts the first of them as 3.
_FLAGS, _UTIME, _STIME, _CUTIME, _CSTIME, _START = 6, 11, 12, 13, 14, 19


@dataclass(frozen=True)
class Process:
    """A process, and the CPU time it has used until now."""

    comm: str
    is_kernel: bool
    own_ticks: int
    waited_for_ticks: int  # of children that ended

    @property
    def ticks(self) -> int:
        """Its own, and what its ended children left to it."""
        return self.own_ticks + self.waited_for_ticks


Snapshot = dict[tuple[int, int], Process]  # by pid and start time: a pid may be used again


def parse(stat: str) -> tuple[int, Process] | None:
    """Return start time and process of the text of /proc/PID/stat; None if it is not understood."""
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    try:
        own = int(fields[_UTIME]) + int(fields[_STIME])
        waited_for = int(fields[_CUTIME]) + int(fields[_CSTIME])
        is_kernel = bool(int(fields[_FLAGS]) & _PF_KTHREAD)
        return int(fields[_START]), Process(head.partition("(")[2], is_kernel, own, waited_for)
    except (IndexError, ValueError):
        return None


def snapshot(proc: Path = _PROC) -> Snapshot:
    """Return all processes there are."""
    found: Snapshot = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        stat = read(proc / name / "stat")
        one = parse(stat) if stat is not None else None
        if one is not None:
            found[int(name), one[0]] = one[1]
    return found


def _since(before: Snapshot, key: tuple[int, int], now: Process) -> tuple[int, int]:
    """Ticks since then: its own, and with its ended children's."""
    then = before.get(key)
    return (
        (now.own_ticks, now.ticks)
        if then is None
        else (now.own_ticks - then.own_ticks, now.ticks - then.ticks)
    )


def compare(before: Snapshot, after: Snapshot, workload_ns: int, own_pids: Collection[int]) -> dict[str, Any]:
    """Return run.json's "others": what was done between two snapshots by whom.

    workload_ns: CPU time of the workload's cgroup, whose processes were started and waited for in between.
    own_pids: ours. A process that is gone has left its CPU time, that from before too, to who waited for it.
    """
    user = kernel = tracing = 0
    programs: dict[str, int] = {}
    for key, process in after.items():
        own, whole = _since(before, key, process)
        if process.is_kernel:
            kernel += own
            continue
        user += whole
        if key[0] in own_pids:
            tracing += own
        elif own > 0:
            programs[process.comm] = programs.get(process.comm, 0) + own
    gone = sum(process.ticks for key, process in before.items() if key not in after and not process.is_kernel)
    most = sorted(programs.items(), key=lambda item: (-item[1], item[0]))[:_PROGRAMS_SHOWN]
    return {
        "cpu_ns": max((user - gone - tracing) * _TICK_NS - workload_ns, 0),
        "kernel_threads_cpu_ns": kernel * _TICK_NS,
        "workload_cpu_ns": workload_ns,
        "tracing_cpu_ns": tracing * _TICK_NS,
        "programs": [{"comm": comm, "cpu_ns": ticks * _TICK_NS} for comm, ticks in most],
    }


def cgroup_cpu_ns(directory: Path) -> int | None:
    """Return the CPU time of a cgroup2 directory, with processes that have ended; None if it does not say."""
    for line in (read(directory / "cpu.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdigit():
            return int(value) * 1000
    return None
