# SPDX-License-Identifier: BSD-2-Clause
"""Synchronous writes (O_SYNC, O_DSYNC, -o sync): each waits for its data, a commit, the disk's cache."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.syncing import made_finding
from analysis.measures.waits.explained import SYNC_WRITE
from analysis.rundir.mounted import mount_options

KEY = "sync_write"
WRITES = ("write", "pwrite64", "writev", "pwritev")


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all sleeps below the sync within a write."""
    if case.sleeps is None:
        return []
    why = "mounted with sync" if "sync" in mount_options(case.run) else "O_SYNC or alike"
    return made_finding(case, KEY, case.sleeps.of(SYNC_WRITE), WRITES, f"were synchronous ({why})")


RULES = (Rule(key=KEY, order=6, sought="synchronous writes", collectors=("threads",), find=find),)
