# SPDX-License-Identifier: BSD-2-Clause
"""Flushes of the device's cache, which commits and fsync() wait for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.findings.at_device import (
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    ms,
    path_evidence,
    remedy,
    where_of,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.on_disk import head_text
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why

KEY = "device_flush"
WITHOUT = {"FLUSH": "0"}


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    flush, block = time.of.get(Why.FLUSH) if time else None, case.tables.block
    if time is None or flush is None or block is None:
        return []
    cost = cost_of(case, flush)
    if not case.counts(cost.value_s):
        return []
    writes = np.flatnonzero(block.op.is_("write") & block.timed)
    write_ns = float((block.complete_ns[writes] - block.queue_ns[writes]).mean()) if writes.size else 0.0
    each_ns = flush.q2d_ns + flush.d2c_ns
    sure, doubt = certainty_of(case, cost)
    return [
        Finding(
            kind=KEY,
            what=f"Flushes of the cache of {disk_names(case)}: {case.of_wall(cost.value_s)}.",
            because=[
                f"{flush.requests:,} flushes were waited for, {ms(each_ns)} each (mean),"
                f" {ms(flush.q2d_ns)} of it before the device had them.",
                f"All writes took {ms(write_ns)} each (mean).",
                *head_text(case, flush),
            ],
            where=where_of(flush),
            cost=cost,
            evidence=[
                path_evidence(case, flush, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": "flush"},
                    "mean queue to completion of flushes, against writes",
                    "ns",
                    each_ns,
                    write_ns or None,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=remedy(case, WITHOUT, "no cache flushes (unsafe, for the test)", 0.0, cost),
            no_remedy="the disk got no flushes (FLUSH=0) already",
            test=f"on a disk with a protected cache, or without flushes: {case.command()}",
            lines=flush.lines,
            line_s=case.line_s(flush.line_ns),
        )
    ]


RULES = (Rule(KEY, 350, "flushes of the disk's cache", ("block", "sched"), _find, is_bound=True),)
