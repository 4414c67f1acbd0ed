# SPDX-License-Identifier: BSD-2-Clause
"""What a remedy may save at most: the workload's own CPU time is still there, on the CPUs that it has."""

from __future__ import annotations

from dataclasses import replace

from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Cost, Remedy
from analysis.measures.threads.results import ThreadResults
from analysis.rundir.run import Run, dig

CHANGES_CPU = ("CPUS", "COLLECT", "THREADS")  # by these words the CPU time, or the CPUs, differ


def bounded(remedy: Remedy, run: Run, threads: ThreadResults | None, wall_s: float) -> Remedy:
    """The remedy, which saves no more of wall_s than leaves the CPU time of the workload its CPUs."""
    cpus = _cpus(run)
    if threads is None or not cpus or any(word in remedy.words for word in CHANGES_CPU):
        return remedy
    cpu_s = sum(part.ns for part in threads.of(WORKLOAD) if part.is_on_cpu) / 1e9
    most_s = max(wall_s - cpu_s / cpus, 0.0)
    saved = remedy.saved
    if saved.value_s <= most_s:
        return remedy if saved.high_s <= most_s else replace(remedy, saved=replace(saved, high_s=most_s))
    text = f"{remedy.text} (then {cpus} CPU{'s are' if cpus > 1 else ' is'} full)"
    return replace(remedy, text=text, saved=Cost(most_s, min(saved.low_s, most_s), most_s))


def _cpus(run: Run) -> int | None:
    """CPUs that the workload may use."""
    own = dig(run.facts, "workload", "cpus")
    return len(own) if isinstance(own, list) and own else run.cpus
