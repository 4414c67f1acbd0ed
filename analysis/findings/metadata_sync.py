# SPDX-License-Identifier: BSD-2-Clause
"""Calls that wait for a commit though they are no sync: open(), where it is mounted with dirsync."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Finding
from analysis.findings.remedies import without_options
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    call_names,
    calls_text,
    certainty_of,
    cost_of,
    ends_text,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.waits.explained import PLAIN
from analysis.rundir.mounted import mount_options

KEY = "metadata_sync"
COMMIT = "commit"
OPTIONS = ("sync", "dirsync", "wsync")  # that make each such call wait for the disk


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: commits in calls that don't sync, and that no other process asked for."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, COMMIT)
    cost = cost_of(case, sleeps.total_ns, sleeps.total_weak_ns)
    if not case.counts(cost.value_s):
        return []
    options = [option for option in mount_options(case.run) if option in OPTIONS]
    mounted = f" (mounted with {', '.join(options)})" if options else ""
    what = f"{sleeps.count:,} times {call_names(sleeps) or 'the kernel'} waited for a commit{mounted}"
    longest = seconds(sleeps.longest_ns / 1e9)
    because = [f"{calls_text(case, sleeps) or 'In no call that is known'}; the longest took {longest}."]
    because += [text for text in (ends_text(case, COMMIT),) if text]
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    without = f"without {', '.join(options)}: " if options else "with fewer of these calls: "
    return [
        Finding(
            kind=KEY,
            what=f"{what}: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=accounts(case, sleeps),
            certainty=certainty,
            doubt=doubt,
            remedy=without_options(case, OPTIONS, cost),
            no_remedy="MOUNT= has no option that asks for these commits",
            test=f"{without}{case.command()}",
            lines=frozenset({COMMIT}),
        )
    ]


RULES = (
    Rule(key=KEY, order=7, sought="commits in calls that don't sync", collectors=("threads",), find=find),
)
