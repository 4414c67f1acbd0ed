# SPDX-License-Identifier: BSD-2-Clause
"""CPU time of other programs on the machine during the workload, by name.

From /proc before and after the workload, as run.json's "others" states it. block/request_owners.py has their
requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.rundir.run import Run, as_int, clean, dig

PROGRAMS = 3
LEAST_SHOWN_NS = 50_000_000  # a program with less is not named: /proc counts in steps of 10 ms


@dataclass(frozen=True)
class Others:
    """CPU time between the two readings of /proc."""

    cpu_ns: int  # of programs outside the workload
    kernel_threads_cpu_ns: int  # not attributable to a program
    programs: tuple[tuple[str, int], ...]  # name and CPU time, most first


def measure_others(run: Run) -> Others | None:
    """None: not recorded (an older run, or a watched live system, where no program is another's)."""
    cpu_ns = run.int_("others", "cpu_ns")
    if cpu_ns is None:
        return None
    stated = dig(run.facts, "others", "programs")
    programs = [
        (clean(program.get("comm"), 20), as_int(program.get("cpu_ns")) or 0)
        for program in (stated if isinstance(stated, list) else [])
        if isinstance(program, Mapping)
    ]
    return Others(
        cpu_ns=cpu_ns,
        kernel_threads_cpu_ns=run.int_("others", "kernel_threads_cpu_ns") or 0,
        programs=tuple(program for program in programs[:PROGRAMS] if program[1] >= LEAST_SHOWN_NS),
    )
