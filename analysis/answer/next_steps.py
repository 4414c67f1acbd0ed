# SPDX-License-Identifier: BSD-2-Clause
"""Where to look next: one command each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.findings.finding import Finding
from analysis.findings.rule import Case
from analysis.measures.ledger import CPU

MOST_STEPS = 3
MUCH_CPU = 0.2  # of the time: CPU samples would tell in which functions


@dataclass(frozen=True)
class Step:
    """A command, or a file to open, and what it shows."""

    command: str
    shows: str


def steps(case: Case, findings: Sequence[Finding]) -> list[Step]:
    """At most MOST_STEPS, what tells most about this run first."""
    found = []
    for number, finding in enumerate(findings[:1], 1):
        if finding.remedy is not None:
            found.append(Step(f"make verify RUN=... FINDING={number}", finding.remedy.text))
    line = case.ledger.line(CPU)
    if line is not None and case.results.cpu is None and line.ns > MUCH_CPU * case.ledger.total_ns:
        found.append(Step('COLLECT="block calls threads sched perf"', "functions on CPUs"))
    if case.tables.block is not None:
        found.append(Step("make movie RUN=...", "the disk over time"))
    found.append(Step("report.html", "pictures, and all tables"))
    return found[:MOST_STEPS]
