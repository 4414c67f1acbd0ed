# SPDX-License-Identifier: BSD-2-Clause
"""Without a critical path: the time in which the threads of the workload slept for the disk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.findings.at_device import device_time, disk_names, ms, on_ram
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Where
from analysis.findings.on_disk import busy_text
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.findings.wording import seconds

KEY = "device_waits"
CAUSES = ("device_read", "device_write", "page_io", "flush", "queue", "io")
MOST_NAMED = 3


def _find(case: Case) -> Sequence[Finding]:
    block, ledger = case.tables.block, case.ledger
    if device_time(case) is not None or block is None or not block.timed.any():
        return []
    lines = [line for line in ledger.lines if line.key in CAUSES and line.ns]
    cost = Cost(*ledger.cost(sum(line.ns for line in lines), sum(line.weak_ns for line in lines)))
    if not case.counts(cost.value_s):
        return []
    lines.sort(key=lambda line: -line.ns)
    timed = np.flatnonzero(block.timed & block.moves_data)
    took = float((block.complete_ns[timed] - block.queue_ns[timed]).mean()) if timed.size else 0.0
    window = case.results.window
    parts = ", ".join(f"{line.text} {seconds(ledger.seconds(line.ns))}" for line in lines[:MOST_NAMED])
    return [
        Finding(
            kind=KEY,
            what=f"The workload's threads slept for {disk_names(case)}: {case.of_wall(cost.value_s)}.",
            because=[
                f"They waited for: {parts}.",
                f"{timed.size:,} requests took {ms(took)} each from queue to completion (mean).",
                *busy_text(case),
            ],
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=cost,
            evidence=[
                Evidence(
                    "thread_time",
                    {"role": "workload", "cause": [line.key for line in lines]},
                    "time asleep, against all of the threads' time",
                    "ns",
                    float(sum(line.ns for line in lines)),
                    float(ledger.total_ns),
                ),
                Evidence("block", {"op": ["read", "write"]}, "mean queue to completion", "ns", took, None),
            ],
            certainty=Certainty.LIKELY,
            doubt=f"threads may have waited while others worked: there is no path by requests, which"
            f" {ledger.threads:,} threads' time does not replace",
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"COLLECT with sched, for the critical path: {case.command()}",
            lines=frozenset(line.key for line in lines),
        )
    ]


RULES = (Rule(KEY, 430, "", ("block", "threads"), _find, is_bound=True),)
