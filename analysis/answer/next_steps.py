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
PERF = "perf"


@dataclass(frozen=True)
class Step:
    """A command, or a file to open, and what it shows."""

    command: str
    shows: str


def steps(case: Case, findings: Sequence[Finding]) -> list[Step]:
    """At most MOST_STEPS, what tells most about this run first."""
    run, found = case.run, []
    if not run.imported and any(run.off(name) for name in run.losses):
        found.append(Step("make doctor", "what is off, and what switches it on"))
    line = case.ledger.line(CPU)
    if (
        line is not None
        and case.results.cpu is None
        and line.ns > MUCH_CPU * case.ledger.total_ns
        and not any(PERF in finding.test for finding in findings)
    ):
        collectors = " ".join([*run.asked, PERF])
        found.append(Step(case.command(COLLECT=collectors), "the functions on the CPUs"))
    if case.tables.block is not None:
        found.append(Step("make movie RUN=...", "the disk over time"))
    found.append(Step("report.html", "pictures, all findings, all tables"))
    return found[:MOST_STEPS]
