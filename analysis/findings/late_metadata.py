# SPDX-License-Identifier: BSD-2-Clause
"""Metadata that the file system put off, written in place long after the data, held the workload up."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import certainty_of, disk_names
from analysis.findings.finding import Cost, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.findings.wording import seconds
from analysis.measures.at_device.late_metadata import LateMetadata, measure_late_metadata
from analysis.measures.at_device.served import How
from analysis.measures.critical_path.results import NoPath
from analysis.units import bytes_

KEY = "late_metadata"
LEAST_LAG_S = 1.0  # behind the data


def _late(case: Case) -> LateMetadata | None:
    path, block, results = case.results.path, case.tables.block, case.results.block
    if isinstance(path, NoPath) or path.rows is None or block is None or results is None:
        return None
    window = case.results.window
    work = (window.work_start_ns, window.work_end_ns)
    return measure_late_metadata(block, path.rows, results.disk_owners, results.seeks.distances, work)


def _find(case: Case) -> Sequence[Finding]:
    late = _late(case)
    if late is None or late.lag_s < LEAST_LAG_S:
        return []
    cost = _cost(case, late)
    # a difference that may be chance is none
    if not case.counts(cost.low_s):
        return []
    own_s, added_s = case.ledger.seconds(late.own_ns), case.ledger.seconds(late.added_ns)
    window = case.results.window
    reference_s, half_s = seconds(late.reference_half_s), seconds(late.half_s)
    because = [
        f"Half of the {late.reference} had been sent {reference_s} after the begin, half of this metadata"
        f" {half_s}; on average it came {seconds(late.lag_s)} later.",
        f"It came in {late.series} series; the largest, {bytes_(late.longest_bytes)} in"
        f" {seconds(late.longest_s)}, began at {seconds(late.longest_start_s)}: of its requests"
        f" {late.rising_share:.0%} lie further on the disk than the one before, {late.seek_share:.0%} of all"
        " after a seek.",
        f"The path was at {late.waited:,} of these writes for {seconds(own_s)}; to other requests they added"
        f" {seconds(added_s)}.",
    ]
    if late.after_bytes:
        because.append(f"{bytes_(late.after_bytes)} of metadata more came after the workload had ended.")
    doubt = "what they added to other requests is a difference of means" if late.added_ns else ""
    if late.how == How.IN_TURN and late.added_ns:
        doubt = "that the disk serves one request at a time is concluded from when they ended"
    sure, doubt = certainty_of(case, cost, doubt)
    return [
        Finding(
            kind=KEY,
            what=f"Metadata written in place late ({' and '.join(late.whys[:2])}), {bytes_(late.bytes)}, kept"
            f" {disk_names(case)} from the workload's requests for {case.of_wall(cost.value_s)}.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=cost,
            evidence=[
                Evidence(
                    "block",
                    {"op": "write", "class": "metadata", "why": list(late.whys)},
                    f"half of the bytes sent, against half of the {late.reference}",
                    "s",
                    late.half_s,
                    late.reference_half_s,
                ),
                Evidence(
                    "block",
                    {"op": "write", "class": "metadata", "why": list(late.whys)},
                    "share of these requests after a seek",
                    "",
                    late.seek_share,
                    None,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            no_remedy="the file system writes this metadata at some time; when, no variable of a run says",
            test=f"with a larger journal or log, or {disk_names(case)} without a head that seeks:"
            f" {case.command()}",
            lines=late.lines,
        )
    ]


def _cost(case: Case, late: LateMetadata) -> Cost:
    ledger = case.ledger
    value = min(ledger.seconds(late.ns), ledger.wall_s)
    low = ledger.seconds(late.own_ns - late.weak_ns + late.added_low_ns)
    high = min(ledger.seconds(late.own_ns + late.added_high_ns), ledger.wall_s)
    return Cost(value, max(min(low, value), 0.0), max(high, value))


RULES = (Rule(KEY, 395, "waits for metadata written late", ("block", "sched"), _find),)
