# SPDX-License-Identifier: BSD-2-Clause
"""The type of a rule, and the rules found by this folder: the RULES of each module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis import findings as folder
from analysis.discovery import find_listed
from analysis.findings.finding import Finding
from analysis.measures.results import Results
from analysis.rundir.run import Run
from analysis.tables.load import Tables


@dataclass(frozen=True)
class Rule:
    """One kind of explanation. find returns a finding for each time and place where the rule applies."""

    key: str
    order: int  # among findings of equal cost, ascending
    collectors: tuple[str, ...]  # without one of them the rule is not asked
    find: Callable[[Run, Tables, Results], Sequence[Finding]]


def find_rules() -> list[Rule]:
    """The rules of all modules of this folder."""
    return find_listed(folder, "RULES", Rule)


def findings_of(rules: Sequence[Rule], run: Run, tables: Tables, results: Results) -> list[Finding]:
    """What the rules find whose collectors were on, the costliest finding first."""
    possible = [
        rule for rule in rules if all(name in run.losses and not run.off(name) for name in rule.collectors)
    ]
    found = [finding for rule in possible for finding in rule.find(run, tables, results)]
    return sorted(found, key=lambda finding: -finding.cost.value_s)
