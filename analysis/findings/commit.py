# SPDX-License-Identifier: BSD-2-Clause
"""The workload's own syncs: fsync() and its kin wait for data, the journal's commit and the disk's cache.

A workload that syncs goes on at the speed of its syncs: that is a bound, and what slows it down comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.syncing import made_finding
from analysis.measures.waits.explained import SYNC_CALL, SYNC_CALLS

KEY = "commit"


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all sleeps in calls that sync."""
    if case.sleeps is None:
        return []
    return made_finding(case, KEY, case.sleeps.of(SYNC_CALL), SYNC_CALLS, "waited until the disk had it")


RULES = (Rule(key=KEY, order=6, sought="its own fsync()", collectors=("threads",), find=find, is_bound=True),)
