# SPDX-License-Identifier: BSD-2-Clause
"""Time that idle CPUs took to run whom they were to run: leaving an idle state, or a virtual CPU's halt."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.quota import measure_quota
from analysis.measures.cpu.waits import CpuWait, kernel_names, measure_cpu_waits
from analysis.measures.critical_path.owners import IDLE
from analysis.measures.ledger import PATH
from analysis.tables import thread

KEY = "cpu_wakeup"
LONG_NS = 1_000_000  # on average: no CPU takes so long to leave an idle state


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger, run, threads = case.ledger, case.run, case.tables.get(thread.TABLE)
    wait = measure_cpu_waits(
        ledger, case.results.threads, kernel_names(threads), measure_quota(case.results.path)
    ).get(IDLE, CpuWait())
    value, low, high = ledger.cost(wait.ns, wait.weak_ns)
    if not case.counts(value) or not wait.pieces:
        return []
    window, mean_ns = case.results.window, wait.ns / wait.pieces
    parts = case.results.threads.of(WORKLOAD) if case.results.threads else []
    own = [part for part in parts if part.kind == f"ready:{IDLE}"]
    because = [f"{wait.pieces:,} times, {units.ns(mean_ns)} each on average."]
    doubt = "an idle CPU may have been kept by its host, or by an interrupt; neither is recorded"
    if mean_ns > LONG_NS:
        because.append(
            f"A CPU leaves its deepest idle state in less than {units.ns(LONG_NS)}: a limit on CPU time"
            " (cpu.max of a cgroup) or on CPUs is the nearer cause."
        )
    if run.text("machine", "virtualization") not in ("", "none"):
        because.append(f"The machine's {run.cpus or 1} CPUs are virtual: an idle one is woken by its host.")
    return [
        Finding(
            kind=KEY,
            what=f"Idle CPUs took {case.of_wall(value)} to run whoever had been woken.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence(
                    "thread_time",
                    {"role": "workload", "state": "runnable", "by": IDLE},
                    "time of the workload's threads",
                    "s",
                    sum(part.ns for part in own) / 1e9,
                    None,
                ),
                Evidence("thread_time", {"path": IDLE}, "mean wait on the path", "ns", mean_ns, None)
                if ledger.basis == PATH
                else Evidence("thread_time", {"by": IDLE}, "mean wait", "ns", mean_ns, None),
            ],
            certainty=Certainty.LIKELY,
            doubt=doubt,
            no_remedy="idle states are the machine's, not the run's",
            test=f"cpupower idle-set -D 0 (no idle states), then: {case.command()}",
            lines=frozenset(wait.lines),
            line_s=case.line_s(wait.line_ns),
        )
    ]


RULES = (Rule(KEY, 24, "slow wake-ups of idle CPUs", ("threads",), find),)
