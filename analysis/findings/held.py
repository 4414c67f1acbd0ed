# SPDX-License-Identifier: BSD-2-Clause
"""A limit on the cgroup's I/O (io.max, blkio.throttle) held requests back before they were sent."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import (
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    disk_number,
    path_evidence,
    where_of,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why
from analysis.measures.critical_path.requests import HELD_BY
from analysis.units import bytes_

KEY = "held"
PAUSED_BY = "throttle"  # the ledger's line of writers that are slowed down


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    held = time.of.get(Why.HELD) if time else None
    if time is None or held is None or time.held is None:
        return []
    # who dirties pages waits for their write-back, which is as slow as the limit lets it be
    paused = case.ledger.line(PAUSED_BY)
    paused_ns = paused.ns if paused is not None and time.slows_writers else 0
    cost = cost_of(case, held, paused_ns)
    if not case.counts(cost.value_s):
        return []
    summary, disk = time.held, disk_names(case)
    span_s = max((summary.end_ns - summary.start_ns) / 1e9, 1e-9)
    sure, doubt = certainty_of(
        case, cost, "that writers were slowed down by it is concluded" if paused_ns else ""
    )
    because = [
        f"{summary.requests:,} requests of {bytes_(summary.bytes)} were held. From the first to the last,"
        f" {span_s:.2f} s, {bytes_(summary.passed_bytes / span_s)} and {summary.passed_requests / span_s:.0f}"
        " requests a second passed.",
        f"Once sent, each took {held.d2c_ns / 1e6:.2f} ms (mean) at {disk}.",
    ]
    if paused_ns:
        because.append(
            f"{case.ledger.seconds(paused_ns):.2f} s of it in dirty throttling:"
            f" {100 * time.held_written_share:.0f} % of the bytes written back passed the limit."
        )
    return [
        Finding(
            kind=KEY,
            what=f"A limit of the cgroup (io.max) held I/O to {disk} back: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(held),
            cost=cost,
            evidence=[
                path_evidence(case, held, {"cause": "request"}),
                Evidence(
                    "block",
                    {"work_id": HELD_BY[0]},
                    "requests held back, against all that were sent meanwhile",
                    "requests",
                    float(summary.requests),
                    float(summary.passed_requests),
                ),
            ],
            certainty=sure,
            doubt=doubt,
            no_remedy="the limit is of a cgroup around the run, which a repetition has, too",
            test=f"echo '{disk_number(case)} rbps=max wbps=max riops=max wiops=max' > io.max of the cgroup;"
            f" {case.command()}",
            lines=held.lines | ({PAUSED_BY} if paused_ns else set()),
            line_s=case.line_s(held.line_ns),
        )
    ]


RULES = (Rule(KEY, 310, "a limit on I/O (io.max)", ("block", "sched"), _find),)
