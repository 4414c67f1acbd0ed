# SPDX-License-Identifier: BSD-2-Clause
"""Bound by the kernel's own work on a CPU: in which calls, and with perf's samples in which functions."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.idle import idle_cpus
from analysis.measures.cpu.profile import FunctionRow
from analysis.measures.cpu.split import KERNEL, SOFTIRQ, SPIN, CpuSplit, measure_split
from analysis.measures.ledger import CPU
from analysis.tables import thread_time

KEY = "cpu_kernel"
LEAST_SHARE = 0.1  # of the wall time: every file system needs some CPU
LEAST_NAMED = 0.05  # of the kernel's part
MOST_NAMED = 4
LEAST_SAMPLES = 100


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger, run = case.ledger, case.run
    split = measure_split(case.tables.get(thread_time.TABLE), case.tables.call)
    line = ledger.line(CPU)
    if split is None or line is None or KERNEL not in split.parts:
        return []
    part, cpu_s = split.parts[KERNEL], ledger.seconds(line.ns)
    value = cpu_s * part.share
    if not case.counts(value) or value < LEAST_SHARE * ledger.wall_s:
        return []
    cost = ledger.cost(line.ns, line.weak_ns)
    low, high = cost[1] * part.low, cpu_s * part.high + cost[2] - cpu_s
    window = case.results.window
    by_call = _by_call(split, cpu_s, value)
    who = "one thread" if ledger.threads == 1 else f"the mean of {ledger.threads} threads"
    what = f"The kernel's own work on a CPU took {case.of_wall(value)}, {who}"
    named = ", ".join(f"{call} {units.seconds(seconds)} s" for call, seconds in by_call[:MOST_NAMED])
    because = []
    if split.calls:
        rest = value - sum(seconds for _, seconds in by_call)
        if case.counts(rest) and rest > LEAST_NAMED * value:
            because.append(
                f"{units.seconds(rest)} s of it are in no call named here: in others, in page faults, or on"
                " the way into and out of the kernel."
            )
        calls = [one for one in split.calls if one.target == "target"][:1]
        because += [
            f"{one.call}() kept a CPU, or waited for one, {units.ns(one.awake_ns / one.count)} a call"
            f" ({one.count:,} calls{f', {units.bytes_(one.bytes / one.count)} each' if one.bytes else ''})."
            for one in calls
            if one.count
        ]
    functions = case.results.cpu.whole.workload if case.results.cpu is not None else []
    in_kernel = [row for row in functions if row.in_kernel and row.own.samples]
    because += _functions(in_kernel, value)
    because += _beside(case)
    more = [
        f"{text} {units.seconds(split.parts[state].share * cpu_s)} s"
        for state, text in ((SPIN, "spinning on locks"), (SOFTIRQ, "softirqs on its back"))
        if state in split.parts and case.counts(split.parts[state].share * cpu_s)
    ]
    if more:
        because.append(f"Beside it on the same CPUs: {', '.join(more)}.")
    few = part.samples < LEAST_SAMPLES
    test = f"a faster CPU takes less of it, a faster disk does not: {case.command()}"
    if not in_kernel:
        test = f"{case.command(COLLECT=run.collect_with('perf'))} (names the functions)"
    elif run.text("words", "FS") and not run.text("words", "DISK"):
        test = f"a RAM disk changes little of it: {case.command(DISK='ram')}"
    return [
        Finding(
            kind=KEY,
            what=f"{what}: {named}." if named else f"{what}.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=_evidence(split, in_kernel),
            certainty=Certainty.LIKELY if few else Certainty.SURE,
            doubt=f"only {part.samples} CPU samples tell the kernel from the program" if few else "",
            no_remedy="no variable makes the kernel do the same calls with less work",
            test=test,
            lines=frozenset({CPU}),
        )
    ]


def _by_call(split: CpuSplit, cpu_s: float, kernel_s: float) -> list[tuple[str, float]]:
    """Seconds of the kernel's work in each call; what is in no call of them (faults, other calls) is left."""
    scale = cpu_s * split.cpu_of_awake / split.cpu_ns
    found: dict[str, float] = {}
    for one in split.calls:
        name = f"{one.call}()" if not one.call.startswith("fault") else "page faults"
        found[name] = found.get(name, 0.0) + one.awake_ns * scale
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return [(name, seconds) for name, seconds in ordered if seconds >= LEAST_NAMED * kernel_s]


def _functions(rows: list[FunctionRow], kernel_s: float) -> list[str]:
    """The functions with most time of their own."""
    samples = sum(row.own.samples for row in rows)
    if samples < LEAST_SAMPLES:
        return []
    parts = [
        f"{row.name} {units.seconds(row.own.samples / samples * kernel_s)} s" for row in rows[:MOST_NAMED]
    ]
    return [f"Functions with most time of their own, of {samples:,} samples: {', '.join(parts)}."]


def _beside(case: Case) -> list[str]:
    """How far the other CPUs were idle."""
    idle = idle_cpus(case.tables.counter, case.results.timeline)
    if idle is None or not case.run.cpus or case.ledger.threads != 1:
        return []
    lengths = case.results.timeline.lengths_s
    known = idle == idle
    if not known.any():
        return []
    mean = float((idle[known] * lengths[known]).sum() / lengths[known].sum())
    return [f"Of {case.run.cpus} CPUs {mean:.2f} were idle on average."]


def _evidence(split: CpuSplit, functions: list[FunctionRow]) -> list[Evidence]:
    rows = {"role": WORKLOAD, "state": KERNEL}
    found = [Evidence("thread_time", rows, "time on a CPU", "s", split.parts[KERNEL].ns / 1e9, None)]
    for one in split.calls[:MOST_NAMED]:
        rows = {"call": one.call, "target": one.target}
        found.append(Evidence("call", rows, "time not asleep", "s", one.awake_ns / 1e9, None))
    for row in functions[:MOST_NAMED]:
        rows = {"in_workload": "true", "function": row.name}
        found.append(Evidence("cpu_sample", rows, "samples", "", float(row.own.samples), None))
    return found


RULES = (Rule(KEY, 30, "the kernel's work on a CPU", ("threads",), find, is_bound=True),)
