# SPDX-License-Identifier: BSD-2-Clause
"""Findings of several runs by kind: seconds in each side, and what only some of them have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, find_all, find_rules, lacking
from analysis.measures.compare.compared_run import Loaded
from analysis.measures.compare.differences import Side
from analysis.measures.ledger import measure_ledger

LEAST_APART = 0.01  # of the longest time: kinds that differ by less are not listed


@dataclass(frozen=True)
class KindsFound:
    """What the rules found in one run, by kind. findings: all, in the order of the run's own answer."""

    seconds: Mapping[str, float]  # of all findings of the kind, at most the workload's time
    costliest: Mapping[str, Finding]
    untold: frozenset[str]  # kinds whose rule failed, or lacked a collector
    caveats: list[str]  # what the run can't tell: sentences
    not_asked: list[tuple[str, str]]  # what was sought, and the collectors that were off
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class KindApart:
    """One kind of finding. seconds: mean by side, None: a run does not tell. runs: how many have it."""

    kind: str
    seconds: Sequence[float | None]
    runs: Sequence[int]
    what: str  # the sentence of the costliest finding of the side with most

    @property
    def most_apart(self) -> float:
        """The largest difference between two sides that tell."""
        known = [one for one in self.seconds if one is not None]
        return max(known) - min(known) if known else 0.0


def kinds_found(loaded: Loaded) -> KindsFound:
    """Ask all rules about one run."""
    results = loaded.results
    ledger = measure_ledger(results.path, results.threads, results.window.work_s)
    rules = find_rules()
    found = find_all(rules, Case(loaded.run, loaded.tables, results, ledger))
    seconds: dict[str, float] = {}
    costliest: dict[str, Finding] = {}
    for finding in found.findings:
        if finding.kind in found.caveats:
            continue
        seconds[finding.kind] = seconds.get(finding.kind, 0.0) + finding.cost.value_s
        before = costliest.get(finding.kind)
        if before is None or finding.cost.value_s > before.cost.value_s:
            costliest[finding.kind] = finding
    off = {rule.key for rule in rules if lacking(rule, loaded.run)}
    return KindsFound(
        seconds={kind: min(one, ledger.wall_s) for kind, one in seconds.items()},
        costliest=costliest,
        untold=frozenset(off | {key for key, _ in found.failed}),
        caveats=[finding.what for finding in found.findings if finding.kind in found.caveats],
        not_asked=found.not_asked,
        findings=found.findings,
    )


def kinds_apart(
    runs: Sequence[KindsFound], sides: Sequence[Side], amounts: Sequence[float], longest_s: float
) -> list[KindApart]:
    """The kinds whose seconds differ between sides, most first. amounts: of each run, to divide by."""
    kinds = dict.fromkeys(kind for side in sides for i in side for kind in runs[i].seconds)
    found = []
    for kind in kinds:
        seconds = [_mean(runs, side, amounts, kind) for side in sides]
        has = [sum(kind in runs[i].seconds for i in side) for side in sides]
        most = max(range(len(sides)), key=lambda k: seconds[k] or 0.0)
        costliest = max(
            (one for i in sides[most] if (one := runs[i].costliest.get(kind)) is not None),
            key=lambda finding: finding.cost.value_s,
            default=None,
        )
        found.append(KindApart(kind, seconds, has, costliest.what if costliest is not None else ""))
    found = [one for one in found if one.most_apart >= LEAST_APART * longest_s]
    return sorted(found, key=lambda one: (-one.most_apart, one.kind))


def _mean(runs: Sequence[KindsFound], side: Side, amounts: Sequence[float], kind: str) -> float | None:
    if any(kind in runs[i].untold for i in side):
        return None
    return math.fsum(runs[i].seconds.get(kind, 0.0) / amounts[i] for i in side) / len(side)
