# SPDX-License-Identifier: BSD-2-Clause
"""Pauses of the workload's own: a rate that it keeps, think time, a poll with a timeout."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.critical_path.ends import PAUSE
from analysis.measures.critical_path.results import PathResults

KEY = "own_pause"
CAUSE = "sleep"


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger, path = case.ledger, case.results.path
    line = ledger.line(CAUSE)
    if line is None or not isinstance(path, PathResults):
        return []
    value, low, high = ledger.cost(line.ends.get(PAUSE, 0))
    if not case.counts(value):
        return []
    sleeps = [waits for waits in path.own_waits if waits.waited.cause == CAUSE]
    count, longest = sum(waits.count for waits in sleeps), max((waits.max_ns for waits in sleeps), default=0)
    places = ", ".join(sorted({waits.waited.place for waits in sleeps if waits.waited.place})[:3])
    window = case.results.window
    return [
        Finding(
            kind=KEY,
            what=f"The workload paused of its own will for {case.of_wall(value)}, in"
            f" {count:,} sleep{'s' if count != 1 else ''}.",
            because=(f"The longest took {units.ns(longest)}; asleep in {places or 'no known function'}.",),
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence(
                    "thread_time",
                    {"role": "workload", "cause": CAUSE},
                    "mean sleep on the path",
                    "ns",
                    sum(waits.ns for waits in sleeps) / max(count, 1),
                    None,
                )
            ],
            certainty=Certainty.SURE,
            doubt="",
            no_remedy="the pauses are the program's own",
            test=f"without its rate or think time: {case.command()}",
            lines=frozenset({CAUSE}),
        )
    ]


RULES = (Rule(KEY, 34, "pauses of the workload's own", ("sched",), find),)
