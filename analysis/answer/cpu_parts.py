# SPDX-License-Identifier: BSD-2-Clause
"""What the workload's time on a CPU was: kernel, own code, softirqs, spinning, and in which functions."""

from __future__ import annotations

from analysis import units
from analysis.causes.roles import WORKLOAD
from analysis.findings.rule import Case
from analysis.measures.ledger import Line
from analysis.measures.threads.parts import ON_CPU

TEXTS = {"kernel": "kernel", "user": "own code", "irq": "softirqs", "spin": "spinning"}
LEAST = 0.005  # of the row
MOST_FUNCTIONS = 3


def cpu_parts(case: Case, line: Line) -> str:
    """ "kernel 26.4, own code 0.4": the row's seconds, split as the samples of its threads are."""
    parts = {
        part.kind: part.ns for part in (case.results.threads.of(WORKLOAD) if case.results.threads else ())
    }
    sampled = {kind: parts[kind] for kind in ON_CPU if parts.get(kind) and kind in TEXTS}
    total = sum(sampled.values())
    if not total:
        return ""
    seconds = case.ledger.seconds(line.ns)
    words = [
        f"{TEXTS[kind]} {units.seconds(seconds * ns / total)}"
        for kind, ns in sorted(sampled.items(), key=lambda item: -item[1])
        if ns >= LEAST * total and units.seconds(seconds * ns / total) != "0.00"
    ]
    return ", ".join(words) + _functions(case, seconds)


def _functions(case: Case, seconds: float) -> str:
    """The functions with most samples of perf."""
    cpu = case.results.cpu
    if cpu is None or not cpu.whole.workload_samples:
        return ""
    all_samples = cpu.whole.workload_samples
    shown = [
        f"{row.name} {units.seconds(seconds * row.own.samples / all_samples)}"
        for row in cpu.whole.workload[:MOST_FUNCTIONS]
    ]
    return f"; in {', '.join(shown)}"
