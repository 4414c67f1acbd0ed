# SPDX-License-Identifier: BSD-2-Clause
"""The device's bandwidth: time at the device of large requests, or of very many at once."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import (
    at_device_text,
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    on_ram,
    path_evidence,
    where_of,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.on_disk import faster_disk, head_text
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why
from analysis.units import bytes_

KEY = "device_bandwidth"


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    mine = time.of.get(Why.BANDWIDTH) if time else None
    if time is None or mine is None or not mine.requests:
        return []
    cost = cost_of(case, mine)
    if not case.counts(cost.value_s):
        return []
    sure, doubt = certainty_of(case, cost)
    each = mine.bytes / mine.requests
    ops = ", ".join(mine.ops[:2])
    return [
        Finding(
            kind=KEY,
            what=f"The bandwidth of {disk_names(case)}: {case.of_wall(cost.value_s)}.",
            because=[
                f"{mine.requests:,} requests ({ops}) of {bytes_(each)} were waited for,"
                f" {at_device_text(mine)}.",
                f"The disk moved {bytes_(time.busy_bytes_s)} a second then, with {time.depth_on_path:.1f}"
                " requests at once.",
                *head_text(case, mine),
            ],
            where=where_of(mine),
            cost=cost,
            evidence=[
                path_evidence(case, mine, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": list(mine.ops)},
                    "bytes completed per second while the workload waited for the device",
                    "B/s",
                    time.busy_bytes_s,
                    None,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=faster_disk(case),
            lines=mine.lines,
            line_s=case.line_s(mine.line_ns),
        )
    ]


RULES = (Rule(KEY, 400, "a slow disk", ("block", "sched"), _find, is_bound=True),)
