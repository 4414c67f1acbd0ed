# SPDX-License-Identifier: BSD-2-Clause
"""Written bytes that were still in memory when the workload ended: the disk's part is not timed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis import units
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.split import measure_split
from analysis.measures.ledger import CPU
from analysis.tables import thread_time

KEY = "writes_in_memory"
LEAST_LEFT = 0.5  # of the bytes written
LEAST_BYTES = 10_000_000
CALLS = ("write", "fault_write", "copy")


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    block, call, app, run = case.tables.top, case.tables.call, case.results.app, case.run
    split, line = measure_split(case.tables.get(thread_time.TABLE), call), case.ledger.line(CPU)
    if block is None or call is None or app.bytes is None or split is None or line is None:
        return []
    window, origins = case.results.window, case.results.origins
    written = int(app.bytes.get("write", 0))
    data = block.op.is_("write") & block.class_.is_in(("data", "unknown"))
    in_time = data & (block.issue_ns < window.work_end_ns)
    sent, later = (
        int(np.sum(block.bytes, where=rows, dtype=np.int64)) for rows in (in_time, data & ~in_time)
    )
    deleted = (origins.written.deleted or 0) if origins.written else 0
    left = written - sent - deleted
    if written < LEAST_BYTES or left < LEAST_LEFT * written:
        return []
    awake_ns = sum(one.awake_ns for one in split.calls if one.call in CALLS and one.bytes)
    scale = split.cpu_of_awake / split.cpu_ns
    value, low, high = (awake_ns * scale * seconds for seconds in case.ledger.cost(line.ns, line.weak_ns))
    if not case.counts(value):
        return []
    because = [
        f"Until the workload ended the disk had got {units.bytes_(sent)} of file data"
        + (f"; {units.bytes_(deleted)} were deleted before." if deleted else ".")
    ]
    sync_s = run.float_("timing", "sync_s")
    if sync_s is not None:
        because.append(
            f"The sync after the workload, which is not in its time, took {units.seconds(sync_s)} s."
        )
    lossy = [reason for reason in (run.lossy("block"), run.lossy("calls"), *app.uncounted) if reason]
    unsure = bool(lossy) or origins.written is None or not origins.written.is_exact
    doubt = "; ".join(lossy) or ("what was overwritten in memory can't be told" if unsure else "")
    return [
        Finding(
            kind=KEY,
            what=f"{100 * left / written:.3g} % of the {units.bytes_(written)} written were still in memory"
            f" at the end: writing took {case.of_wall(value)} on a CPU.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence(
                    "call",
                    {"call": "write", "target": "target"},
                    "bytes written",
                    "bytes",
                    float(written),
                    None,
                ),
                Evidence(
                    "block",
                    {"op": "write", "class": "data", "issue_ns": f"< {window.work_end_ns}"},
                    "bytes written",
                    "bytes",
                    float(sent),
                    float(later),
                ),
            ],
            certainty=Certainty.LIKELY if doubt else Certainty.SURE,
            doubt=doubt,
            no_remedy="it says what the run can't tell, not what could be saved",
            test=f"with an fsync or sync at the end: {case.command()}",
            lines=frozenset({CPU}),
        )
    ]


RULES = (Rule(KEY, 11, "writes that stay in memory", ("block", "calls", "threads"), find, is_bound=True),)
