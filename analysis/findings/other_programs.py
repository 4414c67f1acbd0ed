# SPDX-License-Identifier: BSD-2-Clause
"""Waits of the workload's own will for a program outside of it: a server, the other end of a pipe.

Where a thread waits within the kernel, for a lock or a commit that another program has, that is the cause;
so is a stop by a signal (stopped.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.causes.rules import STOPPED
from analysis.findings.finding import Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.waits import PROGRAMS, kernel_names, whose
from analysis.measures.critical_path.ends import text_of
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share
from analysis.measures.critical_path.sums import NOT_LOGGED
from analysis.measures.ledger import PATH
from analysis.measures.threads.parts import VOLUNTARY
from analysis.tables import thread

KEY = "other_programs"
RAN = (Kind.CPU, Kind.UNLOGGED)


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger = case.ledger
    kernel = kernel_names(case.tables.get(thread.TABLE))

    def is_theirs(share: Share) -> bool:
        at_it = share.kind in (*RAN, Kind.TIMER) and not share.is_below
        is_voluntary = share.own.cause in VOLUNTARY and share.own.cause != STOPPED
        return at_it and is_voluntary and whose(share, kernel) == PROGRAMS

    shares = ledger.shares(is_theirs)
    value, low, high = ledger.cost_of(shares)
    if ledger.basis != PATH or not case.counts(value):
        return []
    names: dict[str, int] = {}
    causes: dict[str, int] = {}
    for share in shares:
        names[share.name] = names.get(share.name, 0) + share.ns
        cause = text_of(share.own.cause)
        causes[cause] = causes.get(cause, 0) + share.ns
    window = case.results.window
    first = max(names, key=lambda name: names[name])

    def listed(sums: dict[str, int]) -> str:
        ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:3]
        return ", ".join(f"{name} {units.seconds(ledger.seconds(one))} s" for name, one in ordered)

    paused_ns = sum(share.ns for share in shares if share.kind not in RAN)
    because = [f"Whose time it was: {listed(names)}.", f"By the waiting thread's stack: {listed(causes)}."]
    if case.counts(ledger.seconds(paused_ns)):
        paused = units.seconds(ledger.seconds(paused_ns))
        because.append(f"They slept of their own will for {paused} s of it, until a time of their own.")
    pieces = sum(share.pieces for share in shares)
    doubt = "" if first != NOT_LOGGED else "which program it was is not recorded"
    who = f"{first} and other programs" if len(names) > 1 else first
    return [
        Finding(
            kind=KEY,
            what=f"The workload waited {case.of_wall(value)} for what"
            f" {'programs outside of it' if doubt else who} did.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence("wake", {"waker_role": "other"}, "pieces of the path", "", float(pieces), None)
            ],
            certainty=case.certainty(doubt, low),
            doubt=doubt,
            no_remedy="other programs are not the run's to end",
            test=f"without them: {case.command()}",
            lines=ledger.keys(is_theirs),
        )
    ]


RULES = (Rule(KEY, 21, "work of other programs", ("sched", "threads"), find),)
