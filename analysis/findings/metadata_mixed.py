# SPDX-License-Identifier: BSD-2-Clause
"""The disk's head goes between data, metadata and journal. Where seeks cost nothing, this costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import (
    certainty_of,
    device_time,
    disk_names,
    ms,
    where_of,
)
from analysis.findings.finding import Cost, Evidence, Finding, Remedy
from analysis.findings.on_disk import is_on_emulated
from analysis.findings.remedies import words_of
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why
from analysis.rundir.emulated import KIND

KEY = "metadata_mixed"
WITH_JOURNAL = ("ext3", "ext4", "xfs", "jfs")


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    seeks = time.of.get(Why.SEEKS) if time else None
    if time is None or seeks is None or not time.seeks_of_mixed or not case.results.block:
        return []
    part = time.seek_ns_of_mixed / seeks.ns if seeks.ns else 0.0
    value = case.ledger.seconds(time.seek_ns_of_mixed)
    low = min(case.ledger.seconds(seeks.low_ns) * part, value)
    cost = Cost(value, low, max(value, min(case.ledger.seconds(seeks.high_ns) * part, case.ledger.wall_s)))
    if not case.counts(low):
        return []
    cost_text = doubt = ""
    if not time.head_ns:  # an emulated disk records its seeks
        cost_text = f" A seek costs {ms(time.far_ns - time.near_ns)} here (mean)."
        doubt = "the excess of a seek is a difference of means"
    sure, doubt = certainty_of(case, cost, doubt)
    return [
        Finding(
            kind=KEY,
            what=f"The head of {disk_names(case)} went between data, metadata and journal:"
            f" {case.of_wall(value)}.",
            because=[
                f"{time.seeks_of_mixed:,} requests that were waited for followed one of another class"
                f" elsewhere on the disk.{cost_text}",
            ],
            where=where_of(seeks),
            cost=cost,
            evidence=[
                Evidence(
                    "block",
                    {"op": list(seeks.ops)},
                    "requests waited for, after one of another class, against all after a seek",
                    "requests",
                    float(time.seeks_of_mixed),
                    float(seeks.requests),
                )
            ],
            certainty=sure,
            doubt=doubt,
            remedy=_remedy(case, cost),
            no_remedy="the journal is on another disk already, or the file system has none",
            test=f"with the journal on another disk: {case.command()}",
            lines=seeks.lines,
            line_s=case.line_s(seeks.line_ns),
        )
    ]


def _remedy(case: Case, cost: Cost) -> Remedy | None:
    words = words_of(case)
    if words.get("JOURNAL") or str(words.get("FS", "")).split(":")[0] not in WITH_JOURNAL:
        return None
    kind = KIND if is_on_emulated(case) else "file"  # a second spindle
    return Remedy({"JOURNAL": kind}, "the journal on another disk", Cost(cost.value_s, 0.0, cost.high_s))


RULES = (Rule(KEY, 390, "seeks between data and metadata", ("block", "sched"), _find),)
