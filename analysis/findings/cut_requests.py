# SPDX-License-Identifier: BSD-2-Clause
"""Requests that are cut into small ones by the queue's limit of their size (max_sectors_kb)."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import (
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    ms,
    path_evidence,
    setting,
    where_of,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why
from analysis.units import bytes_

KEY = "cut_requests"
LIMIT = "max_sectors_kb"


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    cut = time.of.get(Why.CUT) if time else None
    if time is None or cut is None or not cut.requests:
        return []
    cost = cost_of(case, cut)
    if not case.counts(cost.value_s):
        return []
    limit = setting(case, LIMIT)
    each = cut.bytes / cut.requests
    by = f" ({LIMIT}: {limit})" if limit is not None else ""
    sure, doubt = certainty_of(case, cost, "what larger requests would take is not known")
    return [
        Finding(
            kind=KEY,
            what=f"Requests to {disk_names(case)} were cut to {bytes_(each)} each{by}:"
            f" {case.of_wall(cost.value_s)}.",
            because=[
                f"{cut.requests:,} such were waited for, {ms(cut.d2c_ns)} each at the device (means),"
                f" {time.depth_on_path:.1f} at once.",
                "The cost is all but 1 of those that had been one request, as if any size took as long.",
            ],
            where=where_of(cut),
            cost=cost,
            evidence=[
                path_evidence(case, cut, {"cause": "request"}),
                Evidence("block", {"op": list(cut.ops)}, "mean size, cut", "B", each, None),
            ],
            certainty=sure,
            doubt=doubt,
            no_remedy="no variable sets the queue's limits",
            test=f"with a larger /sys/block/{disk_names(case)}/queue/{LIMIT}: {case.command()}",
            lines=cut.lines,
            line_s=case.line_s(cut.line_ns),
        )
    ]


RULES = (Rule(KEY, 355, "requests that are cut small", ("block", "sched"), _find),)
