# SPDX-License-Identifier: BSD-2-Clause
"""Where to look next, by the first finding: one command each, or the part of the report with its figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from analysis import front, units
from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Found
from analysis.measures.critical_path.results import NoPath
from analysis.measures.ledger import CPU
from analysis.render.document import Section
from analysis.sections.document import find_sections
from analysis.tables.load import TABLES

MOST_STEPS = 3
MUCH_CPU = 0.2  # of the time: CPU samples would tell in which functions
PART = 0.8  # of the time: a finding of less has a time of its own to look at
PERF = "perf"
OF_DISK = ("block", "wake")  # tables whose rows are requests, or waits for them


@dataclass(frozen=True)
class Step:
    """A command, or a file to open, and what it shows."""

    command: str
    shows: str


def steps(case: Case, of_run: Found, verified: Collection[int], sections: Sequence[Section]) -> list[Step]:
    """At most MOST_STEPS, what tells most about this run first. verified: numbers of findings.

    sections: of the report, in its order.
    """
    run, findings, caveats = case.run, of_run.findings, of_run.caveats
    found: list[Step] = []
    with_remedy = [number for number, one in enumerate(findings, 1) if one.remedy and number not in verified]
    for number in with_remedy[:1]:
        found.append(Step(front.command(f"verify RUN=... FINDING={number}"), "without the cause, in pairs"))
    longer = next((one.test for one in findings if one.kind in caveats and not one.cost.value_s), "")
    if longer.startswith(f"{front.NAME} ") and not run.imported:
        found.append(Step(longer, "long enough"))
    path = case.results.path
    is_of_many = isinstance(path, NoPath) and path.is_of_many  # with both recorded
    if not case.ledger.basis and not is_of_many and not run.imported and run.asked:
        found.append(Step(case.command(COLLECT=""), "with threads and switches"))
    if not run.imported and any(run.off(name) for name in run.losses):
        found.append(Step(front.command("doctor"), "what is off, and what switches it on"))
    if _lacks_functions(case, findings):
        found.append(Step(front.command(f"trace ... COLLECT='block {PERF}'"), "the functions on the CPUs"))
    first = next((one for one in findings if one.kind not in caveats or one.cost.value_s), None)
    is_of_disk = first is not None and any(one.table in OF_DISK for one in first.evidence)
    if case.tables.block is not None and (is_of_disk or first is None):
        found.append(Step(front.command("movie RUN=..."), "the disk over time, request by request"))
    return [*found[: MOST_STEPS - 1], _page(case, first, sections)]


def _lacks_functions(case: Case, findings: Sequence[Finding]) -> bool:
    """Whether the CPU has much of the time, and no samples or test of a finding name its functions."""
    line = case.ledger.line(CPU)
    if line is None or case.results.cpu is not None or line.ns <= MUCH_CPU * case.ledger.total_ns:
        return False
    return not any(PERF in finding.test for finding in findings)


def _page(case: Case, first: Finding | None, sections: Sequence[Section]) -> Step:
    """The part of the report that the first finding's figures are from, and when it was."""
    if first is None:
        return Step("report.html", "pictures and all tables")
    window, where = case.results.window, first.where
    from_s, to_s = ((t - window.work_start_ns) / 1e9 for t in (where.start_ns, where.end_ns))
    is_short = to_s - from_s < PART * window.work_s
    when = f", {units.seconds(from_s)} to {units.seconds(to_s)} s" if is_short else ""
    collectors = {spec.key: spec.collectors[:1] for spec in find_sections() if spec.explains}
    shown = [one for one in sections if one.key in collectors and not one.folded and not one.absent]
    for table in [one.table for one in first.evidence if one.table in TABLES]:
        for section in shown:
            if collectors[section.key] == (TABLES[table].collector,):
                return Step(f"report.html#{section.key}", f"{section.title}{when}")
    return Step("report.html", f"all findings, pictures and tables{when}")
