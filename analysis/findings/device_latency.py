# SPDX-License-Identifier: BSD-2-Clause
"""The device's latency: time at the device of small requests that nothing else explains."""

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

KEY = "device_latency"


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    mine = time.of.get(Why.LATENCY) if time else None
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
            what=f"The latency of {disk_names(case)}: {case.of_wall(cost.value_s)}.",
            because=[
                f"{mine.requests:,} requests ({ops}) of {bytes_(each)} were waited for,"
                f" {at_device_text(mine)}; {time.depth_on_path:.1f} were there at once.",
                *head_text(case, mine),
            ],
            where=where_of(mine),
            cost=cost,
            evidence=[
                path_evidence(case, mine, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": list(mine.ops)},
                    "mean issue to completion of the requests waited for",
                    "ns",
                    mine.d2c_ns,
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


RULES = (Rule(KEY, 410, "the disk's latency", ("block", "sched"), _find, is_bound=True),)
