# SPDX-License-Identifier: BSD-2-Clause
"""Write amplification: waits for writes of journal and metadata, beside the workload's data."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.causes.rules import rules
from analysis.findings.at_device import (
    certainty_of,
    device_time,
    disk_names,
    on_ram,
)
from analysis.findings.finding import Cost, Evidence, Finding, Where
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.findings.wording import seconds
from analysis.measures.critical_path.ends import DEVICE, QUEUE, end_of
from analysis.units import bytes_

KEY = "amplification"
CLASSES = ("write journal", "write metadata")
LEAST = 1.1  # bytes sent for each byte that the application wrote


def _find(case: Case) -> Sequence[Finding]:
    origins = case.results.origins
    written = origins.written.whole if origins.written is not None else None
    if device_time(case) is None or written is None or written.amplification is None:
        return []
    factor = written.amplification
    shares = case.ledger.shares(
        lambda share: share.request in CLASSES and end_of(share)[0] in (DEVICE, QUEUE)
    )
    cost = Cost(*case.ledger.cost_of(shares))
    if factor < LEAST or not case.counts(cost.value_s) or written.app is None:
        return []
    by_class = {
        name: case.ledger.seconds(sum(share.ns for share in shares if share.request == name))
        for name in CLASSES
    }
    sure, doubt = certainty_of(case, cost)
    window = case.results.window
    known = rules().causes
    return [
        Finding(
            kind=KEY,
            what=f"Writes of journal and metadata to {disk_names(case)}, {factor:.2f} bytes sent for each"
            f" written: {case.of_wall(cost.value_s)}.",
            because=[
                f"The workload wrote {bytes_(written.app)}; sent were {bytes_(written.data)} of data,"
                f" {bytes_(written.metadata)} of metadata, {bytes_(written.journal)} of journal.",
                f"It waited {seconds(by_class['write journal'])} for writes of the journal,"
                f" {seconds(by_class['write metadata'])} for metadata.",
            ],
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=cost,
            evidence=[
                Evidence("block", {"op": "write"}, "bytes sent", "B", float(written.device), written.app),
                Evidence(
                    "block",
                    {"op": "write", "class": "journal"},
                    "bytes of the journal",
                    "B",
                    float(written.journal),
                    None,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"with fewer syncs, or the journal on another disk: {case.command()}",
            lines=frozenset(share.own.cause for share in shares if share.own.cause in known),
        )
    ]


RULES = (Rule(KEY, 420, "write amplification", ("block", "sched", "calls"), _find, is_bound=True),)
