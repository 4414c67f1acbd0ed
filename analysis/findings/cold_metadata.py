# SPDX-License-Identifier: BSD-2-Clause
"""Reads of metadata that was not in memory yet: inodes, directories, trees; each the first of its place."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.cold import find_cold
from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why

KEY = "cold_metadata"


def _find(case: Case) -> Sequence[Finding]:
    return find_cold(case, KEY, Why.COLD_METADATA, "metadata")


RULES = (Rule(KEY, 375, "reads of metadata not in memory", ("block", "sched"), _find),)
