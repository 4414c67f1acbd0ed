# SPDX-License-Identifier: BSD-2-Clause
"""CPUs taken by programs outside the workload while it, or a thread that it waited for, was ready to run.

Measured (6.18, 2 CPUs, ext4 compilebench, four hogs beside a busy machine): with less without took 1.09, 1.57
and 1.75 s longer; the costs differ by 0.96, 1.39 and 1.75 s. The time less the cost was 2.24 to 2.56 s in
all nine runs, however long they were (3.9 to 7.2 s).
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.causes.roles import OTHER
from analysis.findings.finding import Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.programs import Program, measure_programs
from analysis.measures.cpu.quota import measure_quota
from analysis.measures.cpu.waits import NOT_SEEN, PROGRAMS, CpuWait, kernel_names, measure_cpu_waits
from analysis.measures.ledger import PATH
from analysis.tables import thread, thread_time

KEY = "cpu_taken"
LEAST_NAMED = 0.1  # of what was taken
MOST_NAMED = 3
MOST_NOT_SEEN, MOST_WEAK = 0.1, 0.2  # of the cost, for a finding that is sure


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger, threads = case.ledger, case.tables.get(thread.TABLE)
    waits = measure_cpu_waits(
        ledger, case.results.threads, kernel_names(threads), measure_quota(case.results.path)
    )
    wait, not_seen = waits.get(PROGRAMS, CpuWait()), waits.get(NOT_SEEN, CpuWait())
    value, low, high = ledger.cost(wait.ns, wait.weak_ns)
    if not case.counts(value):
        return []
    high = min(high + ledger.seconds(not_seen.ns), ledger.wall_s)
    programs = measure_programs(case.tables.get(thread_time.TABLE), threads, case.results.timeline)
    window = case.results.window
    because, named = _who(programs, value)
    mean_ns = wait.ns / wait.pieces if wait.pieces else 0.0
    because.append(f"It was held up {wait.pieces:,} times, {units.ns(mean_ns)} on average.")
    doubt = []
    if ledger.basis != PATH:
        doubt.append(f"without the critical path this is the mean of the workload's {ledger.threads} threads")
    if not_seen.ns > MOST_NOT_SEEN * wait.ns:
        doubt.append(f"who ran was not seen for {units.seconds(ledger.seconds(not_seen.ns))} s")
    if wait.weak_ns > MOST_WEAK * wait.ns:
        doubt.append(f"{units.seconds(ledger.seconds(wait.weak_ns))} s rest on a guess who ended a sleep")
    if not programs:
        doubt.append("which program it was is not recorded")
    return [
        Finding(
            kind=KEY,
            what=f"Other programs had the CPU for {case.of_wall(value)} in which the work was ready to run.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns, phases=wait.main_phases()),
            cost=case.cost(value, low, high),
            evidence=_evidence(case, programs),
            certainty=case.certainty("; ".join(doubt), low),
            doubt="; ".join(doubt),
            no_remedy="other programs are not the run's to end",
            test=f"stop {' and '.join(named) or 'other programs'}, then: {case.command()}",
            lines=frozenset(wait.lines),
            line_s=case.line_s(wait.line_ns),
        )
    ]


def _who(programs: list[Program], seconds: float) -> tuple[list[str], list[str]]:
    """Sentences on the programs, and the names of those that matter."""
    taken = sum(program.taken_ns for program in programs)
    if not taken:
        return [], []
    shown = [program for program in programs if program.taken_ns >= LEAST_NAMED * taken][:MOST_NAMED]
    parts = [f"{program.name} {units.seconds(program.taken_ns / taken * seconds)} s" for program in shown]
    rest = len(programs) - len(shown)
    more = f"; {rest} more" if rest else ""
    sentence = f"By the CPU time that each used meanwhile it was {', '.join(parts)}{more}."
    return [sentence], [program.name for program in shown]


def _evidence(case: Case, programs: list[Program]) -> list[Evidence]:
    results = case.results.threads
    ready_ns = sum(
        part.ns for part in (results.of("workload") if results else []) if part.kind == f"ready:{OTHER}"
    )
    rows = {"role": "workload", "state": "runnable", "by": OTHER}
    found = [Evidence("thread_time", rows, "time of the workload's threads", "s", ready_ns / 1e9, None)]
    for program in programs[:MOST_NAMED]:
        used = {"role": OTHER, "process": program.name}
        found.append(Evidence("thread_time", used, "CPU time", "s", program.cpu_ns / 1e9, None))
    return found


RULES = (Rule(KEY, 20, "CPUs taken by other programs", ("threads",), find),)
