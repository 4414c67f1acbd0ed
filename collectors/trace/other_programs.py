# SPDX-License-Identifier: BSD-2-Clause
"""CPU time of other programs on the machine while the workload ran, from /proc before and after.

The CPU time of a process that started and ended in between is counted with the process that waited for it, or
with process 1.
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
# Indices of fields of /proc/PID/stat after the name; index 0 is field 3 in proc_pid_stat(5).
_FLAGS, _UTIME, _STIME, _CUTIME, _CSTIME, _START = 6, 11, 12, 13, 14, 19


@dataclass(frozen=True)
class Process:
    """A process, and the CPU time that it has used so far."""

    comm: str
    is_kernel: bool
    own_ticks: int
    waited_for_ticks: int  # of children that ended

    @property
    def ticks(self) -> int:
        """The process's own ticks and those of its ended children."""
        return self.own_ticks + self.waited_for_ticks


Snapshot = dict[tuple[int, int], Process]  # by pid and start time: a pid may be used again


def parse(stat: str) -> tuple[int, Process] | None:
    """Return start time and process from the text of /proc/PID/stat; None if it has another form."""
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
    """Return the CPU time of every process so far, by pid and start time."""
    processes: Snapshot = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        stat = read(proc / name / "stat")
        parsed = parse(stat) if stat is not None else None
        if parsed is not None:
            processes[int(name), parsed[0]] = parsed[1]
    return processes


def _since(before: Snapshot, key: tuple[int, int], now: Process) -> tuple[int, int]:
    """Return the ticks since the first snapshot: own, and with the ended children's."""
    then = before.get(key)
    return (
        (now.own_ticks, now.ticks)
        if then is None
        else (now.own_ticks - then.own_ticks, now.ticks - then.ticks)
    )


def compare(
    before: Snapshot,
    after: Snapshot,
    workload_ns: int,
    own_pids: Collection[int],
    emulator_pids: Collection[int] = (),
) -> dict[str, Any]:
    """Return run.json's "others": CPU time between two snapshots, by kind of process.

    workload_ns: CPU time of the workload's cgroup, whose processes started and ended in between. own_pids:
    the session and its collectors. emulator_pids: servers of emulated disks. An ended process has left its
    CPU time, also from before the first snapshot, to the process that waited for it.
    """
    user = kernel = tracing = emulator = 0
    programs: dict[str, int] = {}
    for key, process in after.items():
        own, with_children = _since(before, key, process)
        if process.is_kernel:
            kernel += own
            continue
        user += with_children
        if key[0] in own_pids:
            tracing += own
        elif key[0] in emulator_pids:
            emulator += own
        elif own > 0:
            programs[process.comm] = programs.get(process.comm, 0) + own
    gone = sum(process.ticks for key, process in before.items() if key not in after and not process.is_kernel)
    most = sorted(programs.items(), key=lambda item: (-item[1], item[0]))[:_PROGRAMS_SHOWN]
    return {
        "cpu_ns": max((user - gone - tracing - emulator) * _TICK_NS - workload_ns, 0),
        "kernel_threads_cpu_ns": kernel * _TICK_NS,
        "workload_cpu_ns": workload_ns,
        "tracing_cpu_ns": tracing * _TICK_NS,
        **({"emulator_cpu_ns": emulator * _TICK_NS} if emulator_pids else {}),
        "programs": [{"comm": comm, "cpu_ns": ticks * _TICK_NS} for comm, ticks in most],
    }


def cgroup_cpu_ns(directory: Path) -> int | None:
    """Return the CPU time of a cgroup2 directory, ended processes included; None if it is not counted."""
    for line in (read(directory / "cpu.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec" and value.isdigit():
            return int(value) * 1000
    return None
