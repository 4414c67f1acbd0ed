# SPDX-License-Identifier: BSD-2-Clause
"""The disk stood still: it had requests and completed none, much longer than it takes else."""

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
from analysis.findings.wording import seconds
from analysis.measures.at_device.split import Why
from analysis.units import counted

KEY = "standstill"


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    mine = time.of.get(Why.STANDSTILL) if time else None
    if time is None or mine is None or time.standstill is None:
        return []
    cost, still = cost_of(case, mine), time.standstill
    if not case.counts(cost.value_s):
        return []
    number, longest_ns = still.spans.begin.size, still.longest_ns
    often = "once" if number == 1 else f"{number:,} times"
    sure, doubt = certainty_of(case, cost)
    return [
        Finding(
            kind=KEY,
            what=f"{disk_names(case)} stood still {often}: {case.of_wall(cost.value_s)}.",
            because=[
                f"It had {counted(still.requests, 'request')} and completed none for"
                f" {seconds(longest_ns / 1e9)}{'' if number == 1 else ' at the longest'}; else it completed"
                f" one every {ms(still.usual_ns)} (median).",
            ],
            where=where_of(mine),
            cost=cost,
            evidence=[
                path_evidence(case, mine, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": list(mine.ops)},
                    "longest time without a completion, against the median",
                    "ns",
                    float(longest_ns),
                    float(still.usual_ns),
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"what the kernel and the disk's host say of that time (dmesg), and again: {case.command()}",
            lines=mine.lines,
            line_s=case.line_s(mine.line_ns),
        )
    ]


RULES = (Rule(KEY, 315, "a standstill of the disk", ("block", "sched"), _find),)
