# SPDX-License-Identifier: BSD-2-Clause
"""Seeks: requests that begin elsewhere than where the one before ended take longer at the device."""

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
from analysis.findings.on_disk import disk_service_doubt, faster_disk, split_text
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.findings.wording import seconds
from analysis.measures.at_device.split import DeviceTime, Why, WhyTime

KEY = "device_seeks"


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    seeks = time.of.get(Why.SEEKS) if time else None
    if time is not None and seeks is not None and seeks.head_ns:
        return _recorded(case, time, seeks)
    if time is None or seeks is None or not time.far_ns:
        return []
    cost = cost_of(case, seeks)
    if not case.counts(cost.low_s):  # a difference of means that may be chance is none
        return []
    sure, doubt = certainty_of(case, cost, "the excess is a difference of means")
    return [
        Finding(
            kind=KEY,
            what=f"Seeks of {disk_names(case)}: {case.of_wall(cost.value_s)}.",
            because=[
                f"{seeks.requests:,} requests after a seek were waited for. Such requests took"
                f" {ms(time.far_ns)} at the device, those of the same kind that began within 64 KiB of the"
                f" one before {ms(time.near_ns)}.",
            ],
            where=where_of(seeks),
            cost=cost,
            evidence=[
                path_evidence(case, seeks, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": list(seeks.ops)},
                    "mean issue to completion, after a seek against without",
                    "ns",
                    time.far_ns,
                    time.near_ns,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"on a disk without a moving head: {case.command()}",
            lines=seeks.lines,
            line_s=case.line_s(seeks.line_ns),
        )
    ]


def _recorded(case: Case, time: DeviceTime, seeks: WhyTime) -> Sequence[Finding]:
    """The same by the record of an emulated disk: its own seconds, whatever they served."""
    cost = cost_of(case, seeks)
    if not case.counts(cost.value_s):
        return []
    sure, doubt = certainty_of(case, cost, disk_service_doubt(case))
    at_disk_s, seek_s = (case.ledger.seconds(ns) for ns in (time.at_head_ns, seeks.ns))
    return [
        Finding(
            kind=KEY,
            what=f"Seeks of {disk_names(case)}: {case.of_wall(cost.value_s)}.",
            because=[
                f"Of {seconds(at_disk_s)} for the disk it was, by its own record,"
                f" {split_text(case, time.head_ns, time.at_head_ns)}.",
            ],
            where=where_of(seeks),
            cost=cost,
            evidence=[
                path_evidence(case, seeks, {"cause": "request"}),
                Evidence(
                    "disk_service",
                    {"op": ["read", "write", "destage"]},
                    "time of the critical path at the disk while its head seeks, against the rest",
                    "s",
                    seek_s,
                    max(at_disk_s - seek_s, 0.0),
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=faster_disk(case),
            lines=seeks.lines,
            line_s=case.line_s(seeks.line_ns),
        )
    ]


RULES = (Rule(KEY, 380, "seeks", ("block", "sched"), _find),)
