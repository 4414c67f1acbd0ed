# SPDX-License-Identifier: BSD-2-Clause
"""The answer of a run: the facts of the first screen, in the order in which it states them."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.answer import got, lost, next_steps, others, ran, special, time_spent
from analysis.answer.next_steps import Step
from analysis.answer.time_spent import TimeSpent
from analysis.answer.verified import Verified, read_verified
from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Found
from analysis.render.document import Document


@dataclass(frozen=True)
class Numbered:
    """A finding, the number by which commands name it, and what make verify measured."""

    number: int  # from 1, the costliest first
    finding: Finding
    verified: Verified | None
    is_caveat: bool = False  # says what the run can't tell
    part_of: int | None = None  # number of a finding before it that has nearly all of its time, too
    next_number: int | None = None  # the costliest finding on other time: what may be next without this one


@dataclass(frozen=True)
class Answer:
    """Sentences have no full stop at their end; texts of the run are not yet cleaned."""

    title: str
    wall_s: float  # of the workload
    started: str  # date and time, by the machine's clock; "": not known
    warnings: list[str]  # what must be known before any number, the gravest first
    ran: str
    got: str
    disk: str
    spent: TimeSpent
    findings: list[Numbered]
    sought: list[str]  # and not found
    not_asked: list[tuple[str, str]]  # what was sought, and the collectors that were off
    failed: list[tuple[str, str]]  # keys of rules that failed, and their error
    lost: list[str]  # and off, and ended early
    whole: list[str]  # what was recorded without a loss
    others: str  # other programs of the machine; "": nothing to say
    steps: list[Step]
    no_verdict: list[tuple[str, str]] = field(default_factory=list)  # what was sought, and why it is open


def next_of(number: int, found: Found) -> int | None:
    """The costliest finding that has other time of the ledger than this one; None: there is none."""
    own = found.findings[number - 1]
    others = [
        (finding.cost.value_s, -other)
        for other, finding in enumerate(found.findings, 1)
        if finding.lines and not finding.lines & own.lines and finding.kind not in found.caveats
    ]
    return -max(others)[1] if own.lines and others else None


def make_answer(case: Case, found: Found, document: Document) -> Answer:
    """The answer of a run. document: its report, whose banners and sections the answer names."""
    verified = read_verified(case.run, found.findings)
    numbered = [
        Numbered(
            number,
            finding,
            verified.get(number),
            is_caveat=finding.kind in found.caveats,
            part_of=found.part_of.get(number),
            next_number=next_of(number, found),
        )
        for number, finding in enumerate(found.findings, 1)
    ]
    return Answer(
        title=ran.title(case),
        wall_s=case.ledger.wall_s,
        started=ran.started(case.run),
        warnings=special.warnings(case, found, document.banners),
        ran=ran.ran(case),
        got=got.got(case),
        disk=got.disk(case),
        spent=time_spent.time_spent(case),
        findings=numbered,
        sought=found.sought,
        not_asked=found.not_asked,
        failed=found.failed,
        lost=lost.lost(case.run, found.not_asked),
        whole=lost.whole(case.run),
        others=others.others(case),
        steps=next_steps.steps(case, found, verified, document.sections),
        no_verdict=found.no_verdict,
    )
