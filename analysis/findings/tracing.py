# SPDX-License-Identifier: BSD-2-Clause
"""What recording costs the workload: BPF programs on its own CPU time, and the recorder on its CPUs.

Measured (6.18, ext4 compilebench, three pairs): CPU time of the workload by /proc 2.16 to 2.21 s recorded,
1.78 to 1.86 s with COLLECT=none: 0.36 s. The rule says 0.35 to 0.38 s, limits 0.21 to 0.64 s.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.causes.roles import RECORDER as ROLE
from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Certainty, Evidence, Finding, Remedy, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.common.tracing_cost import RECORDER, measure_cost
from analysis.measures.cpu.quota import measure_quota
from analysis.measures.cpu.waits import CpuWait, kernel_names, measure_cpu_waits
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.ledger import CPU
from analysis.tables import thread

KEY = "tracing"
CALLS = "calls"  # its programs run in the workload's threads only


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run: an estimate, as tracing is measured in windows."""
    ledger, run, threads = case.ledger, case.run, case.results.threads
    line, cost = ledger.line(CPU), measure_cost(run, case.results.recorded_s)
    whole = next((row.bpf for row in cost.rows if row.name == RECORDER), None)
    if line is None or threads is None or whole is None or not run.cpus or not threads.cpu_s:
        return []
    all_s = run.cpus * case.results.recorded_s
    workload_s = sum(part.ns for part in threads.of(WORKLOAD) if part.is_on_cpu) / 1e9
    own_s = ledger.seconds(line.ns)
    on_path = sum(share.ns for share in ledger.shares(lambda share: share.kind == Kind.CPU))
    path_s = ledger.seconds(on_path) or own_s
    calls = next((row.bpf for row in cost.rows if row.name == CALLS), None)
    in_calls_s = calls.value * all_s if calls else 0.0
    calls_half_s = (calls.half_width or in_calls_s) * all_s if calls and calls.half_width else in_calls_s
    half_s = (whole.half_width if whole.half_width is not None else whole.value) * all_s
    rest_s = max(whole.value * all_s - in_calls_s, 0.0)
    part = min(own_s / workload_s, 1.0) if workload_s else 0.0
    kernel = kernel_names(case.tables.get(thread.TABLE))
    wait = measure_cpu_waits(ledger, threads, kernel, measure_quota(case.results.path)).get(ROLE, CpuWait())
    waited_s = ledger.seconds(wait.ns)
    value = waited_s + in_calls_s * part + rest_s * min(path_s / threads.cpu_s, 1.0)
    low = waited_s + max(in_calls_s - calls_half_s, 0.0) * part
    high = waited_s + min(in_calls_s + rest_s + half_s, path_s)
    bounded = case.cost(value, low, high)
    if not case.counts(value):
        return []
    window = case.results.window
    recorder_ns = sum(part.ns for part in threads.of(ROLE) if part.is_on_cpu)
    words = run.text("words", "FS") or run.text("words", "DIR")
    remedy = Remedy({"COLLECT": "none"}, "a run without tracing", bounded) if words else None
    return [
        Finding(
            kind=KEY,
            what=f"Recording this run took about {case.of_wall(bounded.value_s)} of the workload's time.",
            because=(
                f"BPF programs ran {units.seconds(whole.value * all_s)} s on {run.cpus} CPUs,"
                f" {units.seconds(in_calls_s)} s of it in the workload's calls.",
                f"The recorder had a CPU for {units.seconds(waited_s)} s in which the work was ready to run.",
            ),
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=bounded,
            evidence=[
                Evidence("losses.json", {"recorder": "bpf"}, "CPUs' time", "%", 100 * whole.value, None),
                Evidence("thread_time", {"role": ROLE}, "CPU time", "s", recorder_ns / 1e9, None),
            ],
            certainty=Certainty.LIKELY if low > 0 and case.counts(low) else Certainty.POSSIBLE,
            doubt=f"an estimate from {cost.windows} windows of {units.seconds(cost.windows_s)} s in all; what"
            " calling the programs costs is not in it",
            remedy=remedy,
            no_remedy="no variable leaves out what recorded this run",
            test="" if remedy else case.command(COLLECT="none"),
            lines=frozenset({CPU, *wait.lines}),
        )
    ]


RULES = (Rule(KEY, 45, "the cost of recording", ("threads",), find, is_bound=True),)
