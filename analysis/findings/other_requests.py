# SPDX-License-Identifier: BSD-2-Clause
"""Requests of other programs on the same disk made the workload's take longer."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import (
    added_doubt,
    added_text,
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    path_evidence,
    where_of,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.wording import seconds
from analysis.measures.at_device.split import Why
from analysis.measures.at_device.written_for import dirtied_by_others, own_dirtied
from analysis.tables import thread
from analysis.units import bytes_

KEY = "other_requests"
WRITE_BACK = "kernel write-back"  # a name of submitters
MOST = 3  # programs that are named


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    slow = time.of.get(Why.OTHERS) if time else None
    if time is None or slow is None or time.others is None:
        return []
    cost, others = cost_of(case, slow), time.others
    # a difference that may be chance is none; without a comparison it is said that there is none
    if not case.counts(cost.low_s if others.is_compared else cost.value_s):
        return []
    programs, how = _named(case, others.names)
    own_s = case.ledger.seconds(others.own_ns)
    because = [f"Meanwhile these had {others.requests:,} requests of {bytes_(others.bytes)} there."]
    because += _dirtied(case, others.names)
    evidence = [path_evidence(case, slow, {"cause": "request"})]
    doubt = ""
    if others.with_ns:
        because.append(added_text(others, "theirs"))
        evidence.append(
            Evidence(
                "block",
                {"in_workload": True},
                "mean queue to completion, with requests of others under way, against without their part",
                "ns",
                others.with_ns,
                others.without_ns,
            )
        )
        if own_s < 0.9 * cost.value_s:
            doubt = added_doubt(others)
    elif not others.is_compared:
        because.append(
            f"No request of the workload's was without theirs: {seconds(cost.value_s)} is their part of the"
            " bytes."
        )
        doubt = added_doubt(others)
    if own_s >= 0.01 * cost.value_s:
        because.append(f"{seconds(own_s)} of it was with their requests themselves.")
    sure, doubt = certainty_of(case, cost, doubt)
    evidence.append(
        Evidence("block", {"comm": list(others.names)}, "bytes of others", "B", float(others.bytes), None)
    )
    return [
        Finding(
            kind=KEY,
            what=f"The workload waited {case.of_wall(cost.value_s)} while {disk_names(case)} served requests"
            f" of other programs: {', '.join(how)}.",
            because=because,
            where=where_of(slow),
            cost=cost,
            evidence=evidence,
            certainty=sure,
            doubt=doubt,
            no_remedy="other programs are not the run's to end",
            test=f"without {', '.join(programs)}: {case.command()}",
            lines=slow.lines,
            line_s=case.line_s(slow.line_ns),
        )
    ]


def _named(case: Case, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The programs, and how each sent: in place of write-back the program that made most of it dirty."""
    others = dirtied_by_others(case.tables.get(thread.TABLE))
    is_most = others and 2 * others[0][1] > sum(number for _, number in others)
    behind = others[0][0] if is_most else WRITE_BACK
    programs = list(dict.fromkeys(behind if name == WRITE_BACK else name for name in names))
    is_back = is_most and WRITE_BACK in names
    own_too = "in part " if behind in names else ""
    how = [f"{name} ({own_too}by {WRITE_BACK})" if is_back and name == behind else name for name in programs]
    return programs, how


def _dirtied(case: Case, names: Sequence[str]) -> list[str]:
    """Who made dirty what the kernel's threads wrote back, by the kernel's count of each thread."""
    threads = case.tables.get(thread.TABLE)
    own = own_dirtied(threads)
    others = [f"{name} {bytes_(number)}" for name, number in dirtied_by_others(threads)[:MOST]]
    if WRITE_BACK not in names or own is None or not others:
        return []
    return [f"Made dirty on all file systems: by the workload {bytes_(own)}; by others: {', '.join(others)}."]


RULES = (Rule(KEY, 320, "requests of other programs", ("block", "sched"), _find),)
