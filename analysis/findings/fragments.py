# SPDX-License-Identifier: BSD-2-Clause
"""Reads of files that lie in pieces on the disk (fragmentation)."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import (
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    ms,
    on_ram,
    path_evidence,
    where_of,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why
from analysis.units import bytes_

KEY = "fragments"


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    mine = time.of.get(Why.FRAGMENTS) if time else None
    if time is None or mine is None or time.fragments is None:
        return []
    cost, pieces = cost_of(case, mine), time.fragments
    if not case.counts(cost.value_s if pieces.is_most else cost.low_s):
        return []
    took, doubt = "takes", "what a request takes whatever its size is a fit"
    whatever = "whatever its size (a fit)"
    if pieces.is_most:
        took, doubt = "took", "all had one size: how much of a request's time is for its bytes is not known"
        whatever = "with its bytes (median)"
    each = pieces.bytes / pieces.requests
    sure, doubt = certainty_of(case, cost, doubt)
    return [
        Finding(
            kind=KEY,
            what=f"Files read lie in pieces on {disk_names(case)}, {bytes_(each)} a request (mean):"
            f" {case.of_wall(cost.value_s)}.",
            because=[
                f"{bytes_(pieces.bytes)} took {pieces.requests:,} requests, where {pieces.needed:,} of whole"
                f" stretches had done. A request {took} {ms(pieces.each_ns)} {whatever}.",
            ],
            where=where_of(mine),
            cost=cost,
            evidence=[
                path_evidence(case, mine, {"cause": "request"}),
                Evidence("block", {"op": "read", "class": "data"}, "mean size in pieces", "B", each, None),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"with the files written anew where much space is free (filefrag -v has the pieces):"
            f" {case.command()}",
            lines=mine.lines,
            line_s=case.line_s(mine.line_ns),
        )
    ]


RULES = (Rule(KEY, 358, "files in pieces", ("block", "sched"), _find),)
