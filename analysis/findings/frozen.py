# SPDX-License-Identifier: BSD-2-Clause
"""The file system was frozen (fsfreeze, a snapshot): writers wait until it is thawed."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    call_names,
    certainty_of,
    cost_of,
    line_ns,
    rate_evidence,
    stops,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.waits.explained import FROZEN
from analysis.measures.waits.wakers import wakers_of
from analysis.units import counted

KEY = "frozen"


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: sleeps below the start of a write (the super block's per-CPU semaphore)."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(FROZEN)
    cost = cost_of(case, sleeps.total_ns)
    if not case.counts(cost.value_s):
        return []
    times = stops(sleeps)[0].size if sleeps.is_timed else 0
    often = {0: "", 1: "once: ", 2: "twice: "}.get(times, f"{times:,} times: ")
    where = call_names(sleeps)
    waited = f"{counted(sleeps.count, 'sleep')}{f' in {where}' if where else ''} lasted until it was thawed"
    because = [f"{waited}, the longest {seconds(sleeps.longest_ns / 1e9)}."]
    wakers = wakers_of(case.results.path, sleeps, case.tables)
    if wakers:
        names = ", ".join(name for name, _ in wakers[:2])
        because.append(f"Thawed by {names}, which ended {counted(sleeps.count, 'sleep')}.")
    rates, text = rate_evidence(case, stops(sleeps)) if sleeps.is_timed else ([], "")
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    return [
        Finding(
            kind=KEY,
            what=f"The file system was frozen {often}{case.of_wall(cost.value_s)}.",
            because=[*because, *([text] if text else [])],
            where=where_of(case, sleeps),
            cost=cost,
            evidence=[*accounts(case, sleeps), *rates],
            certainty=certainty,
            doubt=doubt,
            no_remedy="who froze the file system was no part of the run",
            test=f"{case.command()}   while nothing freezes the file system (fsfreeze, LVM snapshots)",
            lines=frozenset(sleeps.cause.present()),
            line_s=case.line_s(line_ns(sleeps)),
        )
    ]


RULES = (Rule(key=KEY, order=1, sought="a frozen file system", collectors=("threads",), find=find),)
