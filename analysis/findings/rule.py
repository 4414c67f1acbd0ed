# SPDX-License-Identifier: BSD-2-Clause
"""The type of a rule, what rules look at, and the rules found by this folder: the RULES of each module."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from analysis import findings as folder
from analysis import front, units
from analysis.discovery import find_listed
from analysis.findings.finding import Certainty, Cost, Finding
from analysis.findings.order import Kind, ordered
from analysis.findings.prediction import bounded
from analysis.measures.ledger import Ledger
from analysis.measures.results import Results
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.sleeps import Sleeps
from analysis.rundir.repeatable import why_not_repeatable
from analysis.rundir.run import Run, clean, dig
from analysis.tables.load import Tables

LOCK = "lock"  # a cause of sleeps
_OF_EMULATED = ("TIME", "CRASH_AT", "CRASH")  # variables that need DISK=hdd
LEAST_SHARE, LEAST_S = 0.01, 0.01  # of the workload's wall time: what costs less is no finding


@dataclass(frozen=True)
class Case:
    """What a rule looks at."""

    run: Run
    tables: Tables
    results: Results
    ledger: Ledger

    @cached_property
    def why_not_repeatable(self) -> str:
        """Why make verify can't carry out the run again; "": it can."""
        return why_not_repeatable(self.run)

    @property
    def sleeps(self) -> Sleeps | None:
        """The workload's sleeps, each with what explains it. None: no switches and no threads."""
        return self.results.sleeps

    def counts(self, seconds: float) -> bool:
        """Whether a cost of so many seconds of the wall time is enough for a finding."""
        return seconds >= max(LEAST_SHARE * self.ledger.wall_s, LEAST_S)

    def of_wall(self, seconds: float) -> str:
        """Seconds of the wall time as findings state them: 13.0 s of 41.8 s (31 %)."""
        share = 100 * seconds / self.ledger.wall_s if self.ledger.wall_s else 0.0
        return f"{units.seconds(seconds)} s of {units.seconds(self.ledger.wall_s)} s ({share:.0f} %)"

    def cost(self, value_s: float, low_s: float, high_s: float) -> Cost:
        """A cost within the wall time, whose limits enclose it."""
        value_s = min(max(value_s, 0.0), self.ledger.wall_s)
        return Cost(value_s, min(max(low_s, 0.0), value_s), min(max(high_s, value_s), self.ledger.wall_s))

    def line_s(self, line_ns: Mapping[str, float]) -> dict[str, float]:
        """Time of the ledger's basis by line as seconds of the wall time, for Finding.line_s."""
        return {key: self.ledger.seconds(ns) for key, ns in line_ns.items()}

    def certainty(self, doubt: str, low_s: float) -> Certainty:
        """Sure without a doubt; with one, possible if the low limit of the cost is too little to be one."""
        if not doubt:
            return Certainty.SURE
        return Certainty.LIKELY if self.counts(low_s) else Certainty.POSSIBLE

    def command(self, **words: str) -> str:
        """The command of the run in one line, for a new run directory; words: that differ, "": left out."""
        stated = dig(self.run.facts, "words")
        if not isinstance(stated, Mapping) or not stated:
            return front.shown(self.run.text("command"))
        merged = {
            clean(name, 40): clean(value, 400) for name, value in stated.items() if name != "OUT"
        } | words
        if not any(merged.get(name, "").startswith("hdd") for name in ("DISK", "JOURNAL")):
            merged = {name: value for name, value in merged.items() if name not in _OF_EMULATED}
        parts = [f"{name}={shlex.quote(value)}" for name, value in merged.items() if value]
        job = self.run.text("command").split(" ")[1:2] or ["trace"]
        return " ".join([front.NAME, *job, *parts])


@dataclass(frozen=True)
class Rule:
    """One kind of finding. find returns a finding for each time and place where the rule applies.

    The report says of each rule whose collectors were on and that found nothing: not found: `sought`.
    is_bound: its findings are time in which the work went on at the speed of a CPU or a disk. Without another
    cause there always is some: losses are stated before it, unless they are small (order.py).
    """

    key: str
    order: int  # among findings of equal cost, ascending
    sought: str  # "a lock", "dirty throttling"; "": not named where nothing is found
    collectors: tuple[str, ...]  # without one of them the rule is not asked
    find: Callable[[Case], Sequence[Finding]]
    is_bound: bool = False
    is_caveat: bool = False  # its findings say what the run can't tell: the first screen begins with them
    # why a run without such findings does not tell that there are none; "": it does. None: it always does
    why_not: Callable[[Case], str] | None = None


@dataclass(frozen=True)
class Found:
    """What the rules found, in the order of order.py."""

    findings: list[Finding]
    sought: list[str] = field(default_factory=list)  # and not found
    not_asked: list[tuple[str, str]] = field(default_factory=list)  # what was sought, and what was off
    no_verdict: list[tuple[str, str]] = field(default_factory=list)  # what was sought, and why it is open
    failed: list[tuple[str, str]] = field(default_factory=list)  # keys of rules that raised, and their error
    caveats: set[str] = field(default_factory=set)  # kinds of findings whose rule is_caveat
    part_of: dict[int, int] = field(default_factory=dict)  # numbers of findings: of what they are part


def _testable(finding: Finding, case: Case) -> Finding:
    """The finding without a remedy if make verify can't repeat its run, with the reason."""
    why = case.why_not_repeatable
    if not why and finding.remedy is not None:
        sleeps, ledger = case.sleeps, case.ledger
        locks_s = 0.0
        if sleeps is not None and ledger.threads > 1:
            locks_s = ledger.seconds(sleeps.of(PLAIN, LOCK).total_ns)
        remedy = bounded(finding.remedy, case.run, case.results.threads, ledger.wall_s, locks_s)
        return replace(finding, remedy=remedy)
    if not why:
        return finding
    test = finding.test
    if not test and finding.remedy is not None:
        test = f"with {finding.remedy.text}: {case.command()}"
    return replace(finding, remedy=None, no_remedy=why, test=test)


def find_rules() -> list[Rule]:
    """The rules of all modules of this folder."""
    return find_listed(folder, "RULES", Rule)


def lacking(rule: Rule, run: Run) -> list[str]:
    """The rule's collectors that did not record."""
    return [name for name in rule.collectors if name not in run.losses or run.off(name)]


def find_all(rules: Sequence[Rule], case: Case) -> Found:
    """Ask the rules whose collectors were on. A rule that fails leaves the others' findings as they are."""
    findings: list[Finding] = []
    found = Found(findings)
    for rule in rules:
        if off := lacking(rule, case.run):
            found.not_asked.append((rule.sought, ", ".join(off)))
            continue
        try:
            of_rule = rule.find(case)
            open_ = rule.why_not(case) if rule.why_not is not None and not of_rule else ""
        except MemoryError:
            raise
        except Exception as error:  # a rule's fault must not cost a long run its report; the screen says so
            found.failed.append((rule.key, f"{type(error).__name__}: {clean(error, 200)}"))
            continue
        findings += [_testable(finding, case) for finding in of_rule]
        if rule.is_caveat:
            found.caveats.add(rule.key)
        if open_:
            found.no_verdict.append((rule.sought, open_))
        elif not of_rule and rule.sought:
            found.sought.append(rule.sought)
    kinds = {rule.key: Kind(rule.order, rule.is_bound, rule.is_caveat) for rule in rules}
    in_order, part_of = ordered(findings, kinds, case.ledger)
    findings[:] = in_order
    found.part_of.update(part_of)
    return found
