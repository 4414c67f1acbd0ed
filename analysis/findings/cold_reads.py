# SPDX-License-Identifier: BSD-2-Clause
"""Reads of file data that was not in memory yet: each of them the run's first of its place on the disk."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.cold import find_cold
from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why

KEY = "cold_reads"


def _find(case: Case) -> Sequence[Finding]:
    return find_cold(case, KEY, Why.COLD, "file data")


RULES = (Rule(KEY, 370, "reads of what is not in memory", ("block", "sched"), _find),)
