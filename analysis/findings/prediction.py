# SPDX-License-Identifier: BSD-2-Clause
"""The limits of what a remedy is predicted to save.

Locks may be held by whom the cause holds up: their waits may go with it. The workload's own CPU time stays,
on the CPUs that it has.
"""

from __future__ import annotations

from dataclasses import replace

from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Cost, Remedy
from analysis.measures.threads.results import ThreadResults
from analysis.rundir.run import Run, dig

CHANGES_CPU = ("CPUS", "COLLECT", "THREADS")  # by these words the CPU time, or the CPUs, differ


def bounded(
    remedy: Remedy, run: Run, threads: ThreadResults | None, wall_s: float, locks_s: float = 0.0
) -> Remedy:
    """The remedy with its limits. locks_s: of wall_s, waits for locks that nothing explains yet."""
    cpus = _cpus(run)
    if any(word in remedy.words for word in CHANGES_CPU):
        return remedy
    high_s = max(remedy.saved.high_s, min(remedy.saved.high_s + locks_s, wall_s))
    remedy = replace(remedy, saved=replace(remedy.saved, high_s=high_s))
    if threads is None or not cpus:
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
