# SPDX-License-Identifier: BSD-2-Clause
"""What the rules on cold reads have in common: the finding on reads of what was not in memory yet.

Each of these reads is the run's first of its place on the disk.
"""

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
    setting,
    where_of,
    woken_text,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.on_disk import head_text
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case
from analysis.measures.at_device.split import Why
from analysis.units import bytes_

LEAST_S = 0.1  # nearly every program reads something first


def find_cold(case: Case, kind: str, why: Why, what: str) -> Sequence[Finding]:
    """At most one finding of this kind: the time of a cause. what: was read, "file data"."""
    time = device_time(case)
    cold, block = time.of.get(why) if time else None, case.tables.block
    if time is None or cold is None or block is None or not cold.requests:
        return []
    cost = cost_of(case, cold, cold.woken_ns)
    if not case.counts(cost.value_s) or cost.low_s < LEAST_S:
        return []
    read = int(block.bytes[block.op.is_("read")].sum(dtype="int64"))
    limit = setting(case, "read_ahead_kb")
    ahead = f" (read_ahead_kb: {limit:,})" if limit is not None else ""
    because = [
        f"{cold.requests:,} reads were waited for, each the first of its place in this run:"
        f" {bytes_(cold.bytes / cold.requests)} and {ms(cold.q2d_ns + cold.d2c_ns)} each (means).",
        f"The disk read {bytes_(read)} in all, {bytes_(read / cold.requests)} for each{ahead};"
        f" {time.depth_on_path:.1f} requests were there at once.",
    ]
    because += [*head_text(case, cold), *woken_text(case, cold)]
    sure, doubt = certainty_of(case, cost)
    return [
        Finding(
            kind=kind,
            what=f"Reading from {disk_names(case)} {what} that was not in memory:"
            f" {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(cold),
            cost=cost,
            evidence=[
                path_evidence(case, cold, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": "read"},
                    "mean queue to completion of the reads waited for",
                    "ns",
                    cold.q2d_ns + cold.d2c_ns,
                    None,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"a second time in the same mount, with what it reads in memory: {case.command()}",
            lines=cold.lines,
            line_s=case.line_s(cold.line_ns),
        )
    ]
