# SPDX-License-Identifier: BSD-2-Clause
"""Other work of the kernel: waits for a worker, an RCU grace period, delayed work of the file system."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    certainty_of,
    cost_of,
    ends_text,
    sleeps_text,
    where_of,
)
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.sleeps import Sleeps

KEY = "kernel_wait"
COLLECT = "block locks calls counters threads events sched perf"  # the usual, and who runs what


def find(case: Case) -> Sequence[Finding]:
    """One finding for each function in which enough was waited."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    return [
        _finding(case, place, sleeps.where(sleeps.place.is_(place)))
        for place, ns, _ in sleeps.by(sleeps.place)
        if case.counts(case.ledger.seconds(ns))
    ]


def _finding(case: Case, place: str, sleeps: Sleeps) -> Finding:
    cost = cost_of(case, sleeps.total_ns)
    because = [sleeps_text(case, sleeps)]
    because += [text for text in (ends_text(case, KEY),) if text]
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    return Finding(
        kind=KEY,
        what=f"Waited in {place}() for other kernel work: {case.of_wall(cost.value_s)}.",
        because=because,
        where=where_of(case, sleeps),
        cost=cost,
        evidence=accounts(case, sleeps),
        certainty=certainty,
        doubt=doubt,
        no_remedy="what the kernel waited for follows from no variable that is known",
        test=f"who does that work: {case.command(COLLECT=COLLECT)}",
        lines=frozenset({KEY}),
    )


RULES = (Rule(key=KEY, order=29, sought="other kernel work", collectors=("threads",), find=find),)
