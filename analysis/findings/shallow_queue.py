# SPDX-License-Identifier: BSD-2-Clause
"""Requests waited for a place in the device's queue: too few at once, or write-back throttling (wbt)."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import (
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    ms,
    path_evidence,
    setting,
    where_of,
)
from analysis.findings.finding import Cost, Evidence, Finding, Remedy
from analysis.findings.remedies import words_of
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import WBT, Why

KEY = "shallow_queue"
TAG = "blk_mq_get_tag"
DEEP = 128  # requests: what a disk of today has


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    queued = time.of.get(Why.QUEUE) if time else None
    if time is None or queued is None:
        return []
    cost = cost_of(case, queued)
    if not case.counts(cost.value_s):
        return []
    disk, limit = disk_names(case), setting(case, "nr_requests")
    scheduler = case.run.text("device", "scheduler")
    is_wbt = any(place.startswith(WBT) for place in queued.places)
    # a thread that waits for a tag has seen the queue full
    is_full = (limit is not None and time.depth_highest >= limit) or TAG in queued.places
    because = [
        f"{disk} had at most {time.depth_highest:,} requests at once, {time.depth_on_path:.1f} in the mean"
        f" while waited for{'' if limit is None else f'; nr_requests is {limit:,}'}.",
        f"{queued.requests:,} requests were waited for: {ms(queued.q2d_ns)} in the queue,"
        f" {ms(queued.d2c_ns)} at the device (means).",
    ]
    if TAG in queued.places and limit is not None and 2 * time.depth_highest < limit:
        because.append(
            f"Threads waited in {TAG}() with {time.depth_highest:,} of {limit:,} places taken: the queue has"
            " fewer than it shows, as Linux 6.18 keeps those of an earlier nr_requests."
        )
    doubt = "" if is_full or is_wbt else "nobody was seen to wait for a tag"
    if is_wbt:
        because.append(
            f"Write-back throttling let them wait (wbt_lat_usec {setting(case, 'wbt_lat_usec') or 0})."
        )
        test = f"echo 0 > /sys/block/{disk}/queue/wbt_lat_usec; {case.command()}"
    else:
        test = f"{_deeper(disk)}; {case.command()}"
    sure, doubt = certainty_of(case, cost, doubt)
    of_what = "write-back throttling" if is_wbt else f"a place in the queue of {disk}"
    return [
        Finding(
            kind=KEY,
            what=f"Requests waited for {of_what}: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(queued),
            cost=cost,
            evidence=[
                path_evidence(case, queued, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": list(queued.ops)},
                    "mean queue to issue, against issue to completion",
                    "ns",
                    queued.q2d_ns,
                    queued.d2c_ns,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=None if is_full or is_wbt else _without_scheduler(case, scheduler, cost),
            no_remedy="the places of the queue are the disk's own: no variable changes them",
            test=test,
            lines=queued.lines,
            line_s=case.line_s(queued.line_ns),
        )
    ]


def _deeper(disk: str) -> str:
    """Commands that give the disk a deep queue.

    Linux 6.18 keeps the few places of an earlier nr_requests when the scheduler changes, and shows its
    default: the same number again would change nothing.
    """
    queue = f"/sys/block/{disk}/queue"
    numbers = [f"echo {number} > {queue}/nr_requests" for number in (DEEP // 2, DEEP)]
    return "; ".join((f"echo none > {queue}/scheduler", *numbers))


def _without_scheduler(case: Case, scheduler: str, cost: Cost) -> Remedy | None:
    if not words_of(case) or scheduler in ("", "none"):
        return None
    return Remedy({"SCHED": "none"}, "no I/O scheduler", Cost(cost.value_s, 0.0, cost.high_s))


RULES = (Rule(KEY, 340, "a full device queue", ("block", "sched"), _find),)
