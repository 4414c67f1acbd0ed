# SPDX-License-Identifier: BSD-2-Clause
"""The type of a rule, what rules look at, and the rules found by this folder: the RULES of each module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from analysis import findings as folder
from analysis.discovery import find_listed
from analysis.findings.finding import Finding
from analysis.measures.ledger import Ledger
from analysis.measures.results import Results
from analysis.rundir.run import Run, clean
from analysis.tables.load import Tables


@dataclass(frozen=True)
class Case:
    """What a rule looks at."""

    run: Run
    tables: Tables
    results: Results
    ledger: Ledger


@dataclass(frozen=True)
class Rule:
    """One kind of finding. find returns a finding for each time and place where the rule applies.

    The report says of each rule whose collectors were on and that found nothing: not found: `sought`.
    """

    key: str
    order: int  # among findings of equal cost, ascending
    sought: str  # "a lock", "dirty throttling"; "": not named where nothing is found
    collectors: tuple[str, ...]  # without one of them the rule is not asked
    find: Callable[[Case], Sequence[Finding]]


@dataclass(frozen=True)
class Found:
    """What the rules of a run found, the costliest finding first."""

    findings: list[Finding]
    sought: list[str] = field(default_factory=list)  # and not found
    not_asked: list[tuple[str, str]] = field(default_factory=list)  # what was sought, and what was off
    failed: list[tuple[str, str]] = field(default_factory=list)  # keys of rules that raised, and their error


def find_rules() -> list[Rule]:
    """The rules of all modules of this folder."""
    return find_listed(folder, "RULES", Rule)


def find_all(rules: Sequence[Rule], case: Case) -> Found:
    """Ask the rules whose collectors were on. A rule that fails leaves the others' findings as they are."""
    findings: list[Finding] = []
    found = Found(findings)
    for rule in rules:
        off = [name for name in rule.collectors if name not in case.run.losses or case.run.off(name)]
        if off:
            found.not_asked.append((rule.sought, ", ".join(off)))
            continue
        try:
            of_rule = rule.find(case)
        except MemoryError:
            raise
        except (
            Exception
        ) as error:  # a rule's fault must not cost the report of a long run; the screen states it
            found.failed.append((rule.key, f"{type(error).__name__}: {clean(error, 200)}"))
            continue
        findings += of_rule
        if not of_rule and rule.sought:
            found.sought.append(rule.sought)
    order = {rule.key: rule.order for rule in rules}
    findings.sort(key=lambda finding: (-finding.cost.value_s, order[finding.kind]))
    return found
