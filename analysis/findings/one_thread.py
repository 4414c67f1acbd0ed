# SPDX-License-Identifier: BSD-2-Clause
"""Parallelism that is not used: one thread worked while CPUs were idle, and more can be asked for.

Without a word that asks for more threads nobody could do anything about it: cpu_kernel.py then says how far
the other CPUs were idle.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Remedy, Where
from analysis.findings.remedies import ADDS_WORK
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.idle import beside, idle_cpus
from analysis.measures.critical_path.ends import OWN_CPU
from analysis.measures.critical_path.results import PathResults
from analysis.measures.ledger import CPU

KEY = "one_thread"
LEAST_SHARE = 0.1  # of the wall time: below it there is little to divide


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    run, path, timeline = case.run, case.results.path, case.results.timeline
    threads, cpus = run.int_("workload", "threads"), run.cpus
    is_command = bool(run.text("words", "CMD"))
    if not isinstance(path, PathResults) or not path.is_one or not cpus or cpus < 2:
        return []
    if (threads is None and not is_command) or run.text("workload", "cpus") or run.text("words", "CPUS"):
        return []
    ran, idle = path.over_time.get(OWN_CPU), idle_cpus(case.tables.counter, timeline)
    if ran is None or idle is None:
        return []
    found = beside(ran, idle, cpus, timeline.lengths_s)
    value = found.middle_s
    if not case.counts(value) or value < LEAST_SHARE * case.ledger.wall_s:
        return []
    window = case.results.window
    asked = f", {threads} asked for" if threads is not None else ""
    more = cpus if threads is None or threads < cpus else 0
    adds_work = any(word.startswith(ADDS_WORK) for word in run.str_list("workload", "argv"))
    why_not = "more threads would do more work, not the same" if adds_work else "it has a thread for each CPU"
    if threads is None:
        why_not = "a command has no number of threads (THREADS=)"
    remedy = None
    if threads is not None and more and not adds_work:
        saved = Cost(found.spread_s, 0.0, found.spread_s)
        remedy = Remedy({"THREADS": str(more)}, f"{more} threads, if the work can be divided", saved)
    certainty = Certainty.LIKELY if case.counts(found.low_s) else Certainty.POSSIBLE
    return [
        Finding(
            kind=KEY,
            what=f"One thread worked on one of {cpus} CPUs while others were idle: {case.of_wall(value)}.",
            because=(
                f"{path.at_work:.2f} threads were at work on average{asked}; {path.name} had a CPU for"
                f" {units.seconds(found.ran_s)} s.",
                f"All {cpus} CPUs together were idle for {units.seconds(found.idle_s)} CPU seconds.",
            ),
            where=Where(window.work_start_ns, window.work_end_ns, threads=(path.name,)),
            cost=case.cost(value, found.low_s, found.high_s),
            evidence=[
                Evidence(
                    "counter",
                    {"name": "cpu.idle_ns, cpu.iowait_ns"},
                    "idle CPUs",
                    "CPU seconds",
                    found.idle_s,
                    None,
                )
            ],
            certainty=certainty,
            doubt="idle CPUs are known per time bin, not per moment; whether the work can be divided is not",
            remedy=remedy,
            no_remedy=why_not,
            test="" if remedy else f"with {max(more, 2)} threads or processes at once: {case.command()}",
            lines=frozenset({CPU}),
        )
    ]


RULES = (
    Rule(KEY, 35, "parallelism that is not used", ("sched", "threads", "counters"), find, is_bound=True),
)
