# SPDX-License-Identifier: BSD-2-Clause
"""Which finding is part of another: one second of the path belongs to several views.

The ledger's lines that two findings take their time from bound their common time from below: what both cost
together beyond the time of all these lines is counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Finding
from analysis.measures.ledger import Ledger

NEARLY_ALL = 0.9  # of a finding's cost


def parts_of(findings: Sequence[Finding], ledger: Ledger) -> dict[int, int]:
    """Number of a finding: number of the first one before it that has nearly all of its time, too."""
    found: dict[int, int] = {}
    for at, one in enumerate(findings):
        for before, other in enumerate(findings[:at]):
            if _common_s(one, other, ledger) >= NEARLY_ALL * one.cost.value_s > 0:
                found[at + 1] = before + 1
                break
    return found


def _common_s(one: Finding, other: Finding, ledger: Ledger) -> float:
    """Seconds that the two have in common at least."""
    if not one.lines & other.lines:
        return 0.0
    keys = one.lines | other.lines
    lines_s = ledger.seconds(sum(line.ns for line in ledger.lines if line.key in keys))
    return one.cost.value_s + other.cost.value_s - lines_s
