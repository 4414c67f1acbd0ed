# SPDX-License-Identifier: BSD-2-Clause
"""Reads of file data that had been in memory in this run and had left it, though memory was not used up.

Where the workload has to free memory itself, that is the cause (reclaim.py).
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
    where_of,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.measures.app.memory import increase
from analysis.measures.at_device.split import Why
from analysis.measures.block.again import pages_read_again
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.memory import reclaim_of
from analysis.units import bytes_, counted

KEY = "read_again"
DROPS, REFAULTS, FREE = "vm.cache_drops", "vm.refault_bytes", "mem.free_bytes"
LEAST_S = 0.1


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    again = time.of.get(Why.AGAIN) if time else None
    if again is None or not again.requests or _reclaims(case):
        return []
    cost = cost_of(case, again, again.woken_ns)
    if not case.counts(cost.value_s) or cost.value_s < LEAST_S:
        return []
    pages = pages_read_again(case.tables.block)
    because = [
        f"{again.requests:,} reads were waited for, {bytes_(again.bytes / again.requests)} and"
        f" {ms(again.q2d_ns + again.d2c_ns)} each (means).",
    ]
    evidence = [path_evidence(case, again, {"cause": "request"})]
    if pages is not None and pages.bytes:
        because.append(
            f"{bytes_(pages.again_bytes)} of the {bytes_(pages.bytes)} of data that the disk read"
            f" ({100 * pages.share:.0f} %) the run had read or written before."
        )
        rows = {"op": "read", "class": "data"}
        evidence.append(Evidence("block", rows, "read again", "B", float(pages.again_bytes), None))
    who, doubt, test = _why(case, evidence)
    because += who
    sure, doubt = certainty_of(case, cost, doubt)
    return [
        Finding(
            kind=KEY,
            what=f"Reading from {disk_names(case)} again what had been in memory:"
            f" {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(again),
            cost=cost,
            evidence=evidence,
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"{test}: {case.command()}",
            lines=again.lines,
        )
    ]


def _reclaims(case: Case) -> bool:
    """Whether the workload freed memory itself: then it left memory for that."""
    window = (case.results.window.work_start_ns, case.results.window.work_end_ns)
    reclaim = reclaim_of(case.tables, case.results.path, window)
    slept = case.sleeps is not None and case.sleeps.of(PLAIN, "reclaim").total_ns > 0
    return slept or (reclaim is not None and reclaim.ns > 0)


def _why(case: Case, evidence: list[Evidence]) -> tuple[list[str], str, str]:
    """Why the pages had left memory, by the machine's counters; why that is not sure; and what to try."""
    counter = case.tables.counter
    if counter is None:
        return [], "why it had left memory was not recorded", "with COLLECT=counters"
    found = []
    drops, refaults = increase(counter, DROPS), increase(counter, REFAULTS)
    _, free = counter.series(FREE)
    if free.size:
        found.append(f"At least {bytes_(float(free.min()))} of memory were free all the time.")
        evidence.append(
            Evidence("counter", {"name": FREE}, "free memory, least", "B", float(free.min()), None)
        )
    if refaults:
        found.append(f"{bytes_(refaults)} read on the machine had been reclaimed (refaults).")
        evidence.append(Evidence("counter", {"name": REFAULTS}, "refaults", "B", float(refaults), None))
    if drops:
        times = counted(drops, "time")
        found.insert(0, f"Somebody dropped the page cache {times} meanwhile (vm.drop_caches).")
        evidence.append(
            Evidence("counter", {"name": DROPS}, "drops of the page cache", "", float(drops), None)
        )
        return found, "", "without drop_caches"
    if refaults:
        return found, "who took the memory was not recorded", "with more memory"
    doubt = "what took it from memory was not seen: drop_caches, fadvise(), truncation or a direct write"
    return found, doubt, "a second time"


RULES = (Rule(KEY, 365, "reads of what had been in memory", ("block", "sched"), _find),)
