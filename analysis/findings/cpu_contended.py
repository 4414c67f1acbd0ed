# SPDX-License-Identifier: BSD-2-Clause
"""Too few CPUs: the workload's own threads, the file system's and the kernel's had them."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.causes.roles import FILESYSTEM, WORKLOAD
from analysis.findings.finding import Cost, Evidence, Finding, Remedy, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.quota import measure_quota
from analysis.measures.cpu.ran_on import cpus_ran_on
from analysis.measures.cpu.waits import KERNEL_THREADS, kernel_names, measure_cpu_waits, together
from analysis.measures.ledger import PATH
from analysis.tables import thread

KEY = "cpu_contended"
MOST_NAMED = 4  # CPUs
WHO = {
    WORKLOAD: "threads of the workload itself",
    FILESYSTEM: "the file system's threads",
    KERNEL_THREADS: "other kernel threads",
}


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger, run, threads = case.ledger, case.run, case.tables.get(thread.TABLE)
    waits = measure_cpu_waits(
        ledger, case.results.threads, kernel_names(threads), measure_quota(case.results.path)
    )
    mine = {whose: waits[whose] for whose in WHO if whose in waits}
    wait = together(mine.values())
    value, low, high = ledger.cost(wait.ns, wait.weak_ns)
    if not case.counts(value) or run.cpus is None:
        return []
    window = case.results.window
    host_cpus = run.int_("machine", "vm", "host_cpus")  # CPUS= of a virtual machine is the machine's number
    limit = run.text("workload", "cpus") or (run.text("words", "CPUS") if host_cpus is None else "")
    all_cpus = host_cpus or run.cpus
    is_limited = bool(limit) or bool(run.text("words", "CPUS") and run.cpus < all_cpus)
    ran_on = cpus_ran_on(case.tables)
    is_bound = not limit and 0 < len(ran_on) < run.cpus
    cpus = f"the CPUs {limit} of {run.cpus}" if limit else f"{run.cpus} CPUs"
    if is_bound:
        some = ", ".join(map(str, ran_on[:MOST_NAMED])) + (", ..." if len(ran_on) > MOST_NAMED else "")
        cpus = f"CPU{'s' if len(ran_on) > 1 else ''} {some} of {run.cpus}"
    parts = [
        f"{WHO[whose]} {units.seconds(ledger.seconds(one.ns))} s"
        for whose, one in sorted(mine.items(), key=lambda item: -item[1].ns)
    ]
    mean_ns = wait.ns / wait.pieces if wait.pieces else 0.0
    evidence = [
        Evidence(
            "thread_time",
            {"role": "workload", "state": "runnable", "by": part.kind.partition(":")[2]},
            "time of the workload's threads",
            "s",
            part.ns / 1e9,
            None,
        )
        for part in (case.results.threads.of(WORKLOAD) if case.results.threads else [])
        if part.kind in ("ready:workload", "ready:filesystem", "ready:kernel")
    ]
    if not evidence:
        return []
    because = [
        f"Who had the CPUs: {', '.join(parts)}.",
        f"It waited {wait.pieces:,} times, {units.ns(mean_ns)} on average.",
    ]
    if is_bound:
        because.insert(
            0,
            f"None of its threads ran on another CPU ({run.cpus - len(ran_on)} more): it is bound to these.",
        )
    doubt = ""
    if ledger.basis != PATH:
        doubt = f"without the critical path this is the mean of the workload's {ledger.threads} threads"
    return [
        Finding(
            kind=KEY,
            what=f"The work was ready to run for {case.of_wall(value)} while what belongs to it had {cpus}.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=evidence,
            certainty=case.certainty(doubt, low),
            doubt=doubt,
            remedy=_all(all_cpus, value) if is_limited else None,
            no_remedy="the machine has no more CPUs",
            test=_test(case, is_limited, is_bound),
            lines=frozenset(wait.lines),
            line_s=case.line_s(wait.line_ns),
        )
    ]


def _all(cpus: int, value_s: float) -> Remedy:
    return Remedy({"CPUS": ""}, f"all {cpus} CPUs", Cost(value_s, 0.0, value_s))


def _test(case: Case, is_limited: bool, is_bound: bool) -> str:
    if is_limited:
        return ""
    if is_bound:
        return f"not bound to CPUs (taskset, cpuset): {case.command()}"
    return f"on a machine of more than {case.run.cpus} CPUs: {case.command()}"


RULES = (Rule(KEY, 22, "too few CPUs", ("threads",), find, is_bound=True),)
