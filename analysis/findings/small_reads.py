# SPDX-License-Identifier: BSD-2-Clause
"""A reader that goes through a file waits for every small read, as nothing is read ahead."""

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
    setting,
    where_of,
    woken_text,
)
from analysis.findings.finding import Evidence, Finding
from analysis.findings.remedies import why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.findings.wording import seconds
from analysis.measures.at_device.split import Why
from analysis.measures.at_device.traits import SMALL_BYTES
from analysis.units import bytes_

KEY = "small_reads"
USUAL_KB = 128  # the kernel's own readahead


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    small = time.of.get(Why.SMALL_READS) if time else None
    if time is None or small is None or not small.requests:
        return []
    cost = cost_of(case, small, small.woken_ns)
    if not case.counts(cost.value_s):
        return []
    disk, ahead_kb = disk_names(case), setting(case, "read_ahead_kb")
    is_off = ahead_kb is not None and ahead_kb << 10 < SMALL_BYTES
    each, took_ns = small.bytes / small.requests, small.q2d_ns + small.d2c_ns
    because = [
        f"Each read brings {bytes_(each)}, {ms(took_ns)} after it was sent (means): one at a time,"
        f" {bytes_(each / max(took_ns, 1) * 1e9)} a second at most.",
    ]
    if ahead_kb is not None:
        because.append(f"Readahead of {disk}: {ahead_kb:,} kB.")
    because += woken_text(case, small)
    if case.counts(case.ledger.seconds(small.gap_ns)):
        because.append(
            f"{seconds(case.ledger.seconds(small.gap_ns))} of it by the requests alone, while switches were"
            " not recorded."
        )
    doubt = ""
    if not is_off:
        doubt = "the disk's readahead is on: the program, or the file system, did without it"
    sure, doubt = certainty_of(case, cost, doubt)
    return [
        Finding(
            kind=KEY,
            what=f"Reading files from begin to end in {small.requests:,} waits for {bytes_(each)} each,"
            f" without readahead: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(small),
            cost=cost,
            evidence=[
                path_evidence(case, small, {"cause": "request"}),
                Evidence(
                    "block",
                    {"op": "read", "class": "data"},
                    "mean size of the reads that were waited for",
                    "B",
                    each,
                    None,
                ),
            ],
            certainty=sure,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"blockdev --setra {2 * USUAL_KB} /dev/{disk}; {case.command()}",
            lines=small.lines,
            line_s=case.line_s(small.line_ns),
        )
    ]


RULES = (Rule(KEY, 360, "reads without readahead", ("block", "sched"), _find),)
