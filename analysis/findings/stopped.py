# SPDX-License-Identifier: BSD-2-Clause
"""The workload was stopped: by a signal (SIGSTOP), a freezer cgroup, or a tracer (a debugger, strace)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis import units
from analysis.causes.roles import WORKLOAD
from analysis.causes.rules import STOPPED
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.critical_path.results import PathResults
from analysis.measures.ledger import PATH
from analysis.measures.waits.wakers import wakers_by
from analysis.tables import wake
from analysis.units import counted

KEY = "stopped"
HOW = {
    "ptrace_stop": "stopped by a tracer",
    "do_signal_stop": "stopped by a signal",
    "do_freezer_trap": "frozen with its cgroup",
    "__refrigerator": "frozen with its cgroup, or with the machine",
}


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: time of the path in which its thread was stopped, whoever ran meanwhile."""
    ledger, path = case.ledger, case.results.path
    if ledger.basis != PATH or not isinstance(path, PathResults):
        return []
    shares = ledger.shares(lambda share: share.own.cause == STOPPED)
    value, low, high = ledger.cost_of(shares)
    if not case.counts(value):
        return []
    waits = [one for one in path.own_waits if one.waited.cause == STOPPED]
    count, longest = sum(one.count for one in waits), max((one.max_ns for one in waits), default=0)
    place = max(waits, key=lambda one: one.ns).waited.place if waits else ""
    start, end, by = _seen(case, path)
    let_go = f"; let go on by {', '.join(by[:2])}" if by else ""
    because = [f"{counted(count, 'stop')}, the longest {units.ns(longest)}{let_go}."]
    return [
        Finding(
            kind=KEY,
            what=f"The workload was {HOW.get(place, 'stopped or frozen')}: {case.of_wall(value)}.",
            because=because,
            where=Where(start, end),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence(
                    "switch",
                    {"role": WORKLOAD, "state": "other"},
                    f"off a CPU in {place or 'no known function'}, on the path",
                    "s",
                    ledger.seconds(sum(one.ns for one in waits)),
                    None,
                )
            ],
            certainty=Certainty.SURE,
            doubt="",
            no_remedy="who stopped it was no part of the run",
            test=f"while nothing stops it: {case.command()}",
            lines=frozenset({STOPPED}),
        )
    ]


def _seen(case: Case, path: PathResults) -> tuple[int, int, list[str]]:
    """From the first stop on the path to the end of the last, and the threads that ended them, most first."""
    window, wakes = case.results.window, case.tables.get(wake.TABLE)
    rows = path.rows
    if rows is None:
        return window.work_start_ns, window.work_end_ns, []
    own = np.concatenate([pieces.own for pieces in rows.pieces] or [np.zeros(0, dtype=np.int32)])
    sleeps = np.unique(own[own >= 0])
    sleeps = sleeps[rows.causes.is_in((STOPPED,))[sleeps]]
    if not sleeps.size:
        return window.work_start_ns, window.work_end_ns, []
    start, end = int(rows.intervals.begin[sleeps].min()), int(rows.intervals.end[sleeps].max())
    by = wakers_by(rows, wakes, rows.intervals.wake[sleeps]) if wakes is not None else []
    return max(start, window.work_start_ns), min(end, window.work_end_ns), [name for name, _ in by]


RULES = (Rule(KEY, 15, "a stop of the workload by a signal or a tracer", ("sched",), find),)
