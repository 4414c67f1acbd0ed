# SPDX-License-Identifier: BSD-2-Clause
"""The order of findings: the costliest losses first, then what bounds the work and small losses.

Without another cause there always is a bound: a loss comes before it unless the loss is the smaller one and
little of the wall time or beside that bound. What is part of a finding before it comes after all others that
are not small: its seconds are stated. Last is what costs nothing, and says what the run can't tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.findings.finding import Finding
from analysis.findings.overlap import parts_of
from analysis.measures.ledger import Ledger

LEAST_BEFORE_BOUNDS = 0.1  # of the wall time: less is little
LEAST_OF_BOUND = 0.15  # of what bounds the work: so is less than this of it
SMALL = 0.05  # of the wall time
LAST = 2


@dataclass(frozen=True)
class Kind:
    """What of a rule orders its findings, see Rule."""

    order: int
    is_bound: bool
    is_caveat: bool


def ordered(
    findings: Sequence[Finding], kinds: Mapping[str, Kind], ledger: Ledger
) -> tuple[list[Finding], dict[int, int]]:
    """The findings, and the numbers (from 1) of those that are part of another: of which. kinds: by key."""
    bound_s = max((one.cost.value_s for one in findings if kinds[one.kind].is_bound), default=0.0)
    least_s = max(LEAST_BEFORE_BOUNDS * ledger.wall_s, LEAST_OF_BOUND * bound_s)

    def rank(finding: Finding) -> tuple[int, float, int]:
        kind, cost_s = kinds[finding.kind], finding.cost.value_s
        tier = 0 if cost_s >= least_s and not kind.is_bound else 1
        tier = LAST if kind.is_caveat and not cost_s else tier
        return tier, -cost_s, kind.order

    by_rank = sorted(findings, key=rank)
    parts = parts_of(by_rank, ledger)
    numbers = range(1, len(by_rank) + 1)

    def place(number: int) -> tuple[bool, bool, bool, float]:
        one = by_rank[number - 1]
        is_small = one.cost.value_s < SMALL * ledger.wall_s
        return rank(one)[0] == LAST, is_small, number in parts, -one.cost.value_s if number in parts else 0.0

    order = sorted(numbers, key=place)
    new = {number: at for at, number in enumerate(order, 1)}
    return [by_rank[number - 1] for number in order], {new[one]: new[whole] for one, whole in parts.items()}
