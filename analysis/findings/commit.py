# SPDX-License-Identifier: BSD-2-Clause
"""The workload's own syncs: fsync() and its kin wait for data, the journal's commit and the disk's cache.

A workload that syncs goes on at the speed of its syncs: that is a bound, and what slows it down comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.syncing import made_finding
from analysis.measures.ledger import PATH
from analysis.measures.waits.askers import askers_of
from analysis.measures.waits.explained import SYNC_CALL, SYNC_CALLS
from analysis.rundir.tested import tested_filesystem

KEY = "commit"


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all sleeps in calls that sync."""
    if case.sleeps is None:
        return []
    found = made_finding(case, KEY, case.sleeps.of(SYNC_CALL), SYNC_CALLS, "of its own made it wait")
    askers = askers_of(case.tables, case.results.window, tested_filesystem(case.run).own_numbers)
    if case.ledger.basis == PATH or askers is None or not askers.others:
        return found
    share = f"{askers.others:,} of {askers.all:,} commits began for other processes"
    return [replace(one, doubt=f"{one.doubt}; {share}") for one in found]


RULES = (Rule(key=KEY, order=6, sought="its own fsync()", collectors=("threads",), find=find, is_bound=True),)
