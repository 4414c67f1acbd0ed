# SPDX-License-Identifier: BSD-2-Clause
"""A limit on the workload's CPU time: its threads wait for the next period of a quota."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.quota import IN_STEP, SHORTEST, measure_quota
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share
from analysis.measures.ledger import PATH

KEY = "cpu_quota"


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger = case.ledger
    quota = measure_quota(case.results.path) if ledger.basis == PATH else None
    if quota is None:
        return []
    value, low, high = ledger.cost(quota.ns)
    if not case.counts(value):
        return []
    window = case.results.window
    return [
        Finding(
            kind=KEY,
            what=f"A limit on its CPU time held the workload back for {case.of_wall(value)}: it got"
            f" {quota.ran_ms:.1f} of each {quota.period_ms} ms.",
            because=(
                f"{quota.waits} of its {quota.long_waits} waits for a CPU that took"
                f" {SHORTEST * quota.period_ms:.0f} ms or more ended at the same point of a period of"
                f" {quota.period_ms} ms, within"
                f" {IN_STEP * quota.period_ms:.0f} ms; by chance {2 * IN_STEP:.0%} would.",
            ),
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence(
                    "switch",
                    {"prev_role": "workload", "state": "preempted"},
                    "waits in step with a period",
                    "",
                    float(quota.waits),
                    None,
                ),
                Evidence(
                    "thread_time",
                    {"role": "workload"},
                    "CPU time a period, median",
                    "ms",
                    quota.ran_ms,
                    None,
                ),
            ],
            certainty=Certainty.LIKELY,
            doubt="concluded from when waits ended: the counters of its cgroup (cpu.stat) are not recorded",
            no_remedy="the limit is of a cgroup around the run, which a repetition has, too",
            test="without the limit of its cgroup (cpu.max, cpu.cfs_quota_us): " + case.command(),
            lines=ledger.keys(_is_wait),
        )
    ]


def _is_wait(share: Share) -> bool:
    return share.kind == Kind.READY and share.is_own


RULES = (Rule(KEY, 19, "a limit on CPU time", ("sched", "threads"), find),)
