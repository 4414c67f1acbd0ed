# SPDX-License-Identifier: BSD-2-Clause
"""Reads served by memory: what a run says about its disk is then little. Counts bytes, not pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis import units
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.app.throughput import moves_bytes
from analysis.measures.at_device.traits import held_rows
from analysis.measures.cpu.split import measure_split
from analysis.measures.ledger import CPU
from analysis.tables import function, thread_time

KEY = "cache_served"
LEAST_SERVED = 0.5  # of the bytes read
LEAST_BYTES = 10_000_000
CALLS = ("read", "fault_read", "copy")


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    block, call, app = case.tables.top, case.tables.call, case.results.app
    split = measure_split(case.tables.get(thread_time.TABLE), call)
    line = case.ledger.line(CPU)
    if block is None or call is None or app.bytes is None or split is None or line is None:
        return []
    read = int(app.bytes.get("read", 0))
    window = case.results.window
    # what a limit of the cgroup held back, a worker sent for it
    functions = case.tables.get(function.TABLE) or {}
    own = block.in_workload | held_rows(block, functions)
    mine = block.op.is_("read") & own & ~block.class_.is_in(("metadata", "journal"))
    mine &= block.issue_ns < window.work_end_ns
    from_disk = int(np.sum(block.bytes, where=mine, dtype=np.int64))
    served = read - from_disk
    if read < LEAST_BYTES or served < LEAST_SERVED * read:
        return []
    reading = [one for one in split.calls if one.target == "target" and one.call in CALLS and one.bytes]
    # thread time to wall time, as all of the threads' time on a CPU
    scale = sum(one.awake_ns for one in reading) * split.cpu_of_awake / split.cpu_ns
    value, low, high = (scale * seconds for seconds in case.ledger.cost(line.ns, line.weak_ns))
    if not case.counts(value):
        return []
    reads = moves_bytes(call, "read")
    count = int(call.count[reads].sum())
    total_ns = int(call.total_ns[reads].sum())
    doubt = "; ".join(app.uncounted)
    lossy = case.run.lossy("block") or case.run.lossy("calls")
    doubt = "; ".join(part for part in (doubt, lossy) if part)
    return [
        Finding(
            kind=KEY,
            what=f"{100 * served / read:.3g} % of the {units.bytes_(read)} read came from memory:"
            " no test of a disk.",
            because=(
                f"The disk sent {units.bytes_(from_disk)} of file data for the workload's {count:,} reads.",
                f"Reading took {case.of_wall(value)} on a CPU; a call took"
                f" {units.ns(total_ns / max(count, 1))}.",
            ),
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence("call", {"call": "read", "target": "target"}, "bytes read", "bytes", read, None),
                Evidence(
                    "block",
                    {"op": "read", "class": "data", "in_workload": "true"},
                    "bytes read",
                    "bytes",
                    from_disk,
                    None,
                ),
            ],
            certainty=Certainty.LIKELY if doubt else Certainty.SURE,
            doubt=doubt,
            no_remedy="it says what the run can't tell, not what could be saved",
            test=f"after sync; echo 3 > /proc/sys/vm/drop_caches: {case.command()}",
            lines=frozenset({CPU}),
        )
    ]


RULES = (
    Rule(
        KEY, 10, "reads served by memory", ("block", "calls", "threads"), find, is_bound=True, is_caveat=True
    ),
)
