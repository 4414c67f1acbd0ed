# SPDX-License-Identifier: BSD-2-Clause
"""Locks that programs take of files (flock, fcntl, leases): the workload waited until another gave one up."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    calls_text,
    certainty_of,
    cost_of,
    ends_text,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.wakers import NOT_LOGGED, wakers_of
from analysis.tables import thread
from analysis.units import counted

KEY = "file_lock"
MOST = 3  # holders that are named


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all waits for such locks."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    cost = cost_of(case, sleeps.total_ns, sleeps.total_weak_ns)
    if not case.counts(cost.value_s):
        return []
    holders = wakers_of(case.results.path, sleeps, case.tables)
    first = holders[0][0] if holders else ""
    named = first and first != NOT_LOGGED
    who = f"{first}{_whose(case, first)}" if named else "another thread"
    longest = seconds(sleeps.longest_ns / 1e9)
    because = [f"{counted(sleeps.count, 'sleep')} in {calls_text(case, sleeps)}; the longest took {longest}."]
    if holders:
        listed = ", ".join(f"{name} {count:,} times" for name, count in holders[:MOST])
        because.append(f"Who gave the lock up: {listed}.")
    because += [text for text in (ends_text(case, KEY),) if text]
    doubts = [] if named else ["who had the lock was not recorded"]
    certainty, doubt = certainty_of(case, sleeps, doubts, ("sched", "threads"))
    return [
        Finding(
            kind=KEY,
            what=f"The workload waited for a file lock that {who} had: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=accounts(case, sleeps),
            certainty=certainty,
            doubt=doubt,
            no_remedy="the programs' own locks are part of what is run",
            test=f"without {first if named else 'it'}, or with a lock file for each: {case.command()}",
            lines=frozenset({KEY}),
        )
    ]


def _whose(case: Case, name: str) -> str:
    """Whether the threads of a name are the workload's; empty: not known, or some are."""
    threads = case.tables.get(thread.TABLE)
    roles = (
        {role for comm, role in zip(threads.comm, threads.role, strict=True) if comm == name}
        if threads
        else set()
    )
    if roles == {WORKLOAD}:
        return ", of the workload itself,"
    return ", another program," if roles and WORKLOAD not in roles else ""


RULES = (Rule(key=KEY, order=16, sought="another's file lock", collectors=("threads",), find=find),)
