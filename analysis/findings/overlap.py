# SPDX-License-Identifier: BSD-2-Clause
"""Which finding is part of another: one second of the path belongs to several views.

The ledger's lines that two findings take their time from bound their common time from below: what both cost
together beyond the time of all these lines is counted twice. So is what both have of one line beyond it, if
they say how much of it is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    line_s = {line.key: ledger.seconds(line.ns) for line in ledger.lines}
    in_all = one.cost.value_s + other.cost.value_s - sum(line_s.get(key, 0.0) for key in keys)
    mine, theirs = _line_s(one), _line_s(other)
    in_each = sum(
        max(mine[key] + theirs[key] - line_s.get(key, 0.0), 0.0) for key in mine.keys() & theirs.keys()
    )
    return max(in_all, in_each)


def _line_s(one: Finding) -> Mapping[str, float]:
    """Seconds of the finding's in single lines, as far as they are known."""
    return one.line_s or (dict.fromkeys(one.lines, one.cost.value_s) if len(one.lines) == 1 else {})
