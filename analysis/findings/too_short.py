# SPDX-License-Identifier: BSD-2-Clause
"""A run too short to tell. Its cost is all of its time: no figure of the run is worth more than that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis import units
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.tables import event

KEY = "too_short"
LEAST_S = 5.0  # a journal commits every 5 s, a flusher looks for old pages every 5 s
WATCH = "watch"  # the name of the workload of a watched live system
PERIODIC = ("timer", "age", "periodic")  # reasons of events that time brings


def find(case: Case) -> Sequence[Finding]:
    """One finding if the workload was short."""
    window = case.results.window
    wall_s = window.work_s
    if not 0 < wall_s < LEAST_S:
        return []
    because, evidence = [], []
    events = case.tables.get(event.TABLE)
    if events is not None:
        inside = (events.start_ns >= window.work_start_ns) & (events.start_ns < window.work_end_ns)
        periodic = int(np.count_nonzero(inside & events.why.is_in(PERIODIC)))
        because.append(
            f"Events of the file system and of writeback that came by their timers: {periodic}. What is put"
            f" off by {LEAST_S:.0f} s or more is not in this run."
        )
        rows = {"why": ", ".join(PERIODIC)}
        evidence.append(Evidence("event", rows, "events", "", float(periodic), None))
    bins = int(wall_s * 10)
    because.append(f"It has {bins} time bins of 0.1 s: too few for a trend or a dip.")
    if not evidence:
        evidence.append(Evidence("phase", {}, "the workload's time", "s", wall_s, None))
    text = f"The workload ran {units.seconds(wall_s)} s"
    if case.run.imported:
        text = f"The trace covers {units.seconds(wall_s)} s"
    elif case.run.text("workload", "name") == WATCH:
        text = f"The system was watched for {units.seconds(wall_s)} s"
    if case.run.text("workload", "name") == WATCH:
        test = case.command(SECS="30")
    elif case.run.text("words", "FS"):
        scale = "paper" if case.run.text("words", "SCALE") in ("", "default") else "default"
        test = case.command(SCALE=scale)
    else:
        test = f"with more of the same work: {case.command()}"
    return [
        Finding(
            kind=KEY,
            what=f"{text}: too short to tell.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=Cost(0.0, 0.0, 0.0),  # it explains no time
            evidence=evidence,
            certainty=Certainty.SURE,
            doubt="",
            no_remedy="it says that more work is needed, not what could be saved",
            test=test,
        )
    ]


RULES = (Rule(KEY, 1, "", (), find, is_bound=True, is_caveat=True),)
