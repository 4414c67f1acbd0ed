# SPDX-License-Identifier: BSD-2-Clause
"""What the runs show beside the headline: bytes, seeks, latencies and locks, by configuration.

Each configuration is compared with the best by the headline. A large ratio is no proof of a cause.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.measures.statistics.holm import holm
from analysis.measures.sweep.data import Group
from analysis.measures.sweep.figure import CAUSE
from analysis.measures.sweep.ranking import Ranking

SURE = 0.05


@dataclass(frozen=True)
class Causes:
    """Rankings of possible causes, those that differ by the rule first, then by ratio."""

    rankings: tuple[Ranking, ...]
    comparisons: int  # that have a p
    sure: int  # of these, with p < SURE after Holm's correction over all of them


def compare_causes(group: Group) -> Causes | None:
    """The causes; None without a best configuration, or with one configuration only."""
    reference = group.ranking.reference
    if reference is None or len(group.ranking.rows) < 2:
        return None
    frame = group.frame[group.frame.kind == CAUSE]
    rankings = [
        ranking
        for measure in dict.fromkeys(frame.measure)
        if len((ranking := group.rank(str(measure), against_best=True)).rows) > 1
        and ranking.rows[0].configuration is reference.configuration
    ]
    ps = [row.against.welch_p for ranking in rankings for row in ranking.rows if row.against]
    corrected = [p for p in holm(ps) if p is not None]
    rankings.sort(key=_weight)
    return Causes(tuple(rankings), len(corrected), sum(p < SURE for p in corrected))


def _weight(ranking: Ranking) -> tuple[bool, float]:
    """Differing ones first, then the largest ratio of any configuration to the reference."""
    differs = any(row.against is not None and row.against.rule for row in ranking.rows)
    largest = 0.0
    for row in ranking.rows:
        ratio = row.against.ratio if row.against else None
        if ratio is not None:
            largest = max(largest, abs(math.log(ratio)) if ratio > 0 else math.inf)
    return not differs, -largest
