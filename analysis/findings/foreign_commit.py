# SPDX-License-Identifier: BSD-2-Clause
"""Another process's syncs: the workload waited for commits that it did not ask for, or room they took."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.causes.roles import WORKLOAD
from analysis.findings.commit_words import commit_word
from analysis.findings.finding import Evidence, Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    asleep_evidence,
    call_names,
    certainty_of,
    cost_of,
    line_ns,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.critical_path.ends import text_of
from analysis.measures.ledger import PATH
from analysis.measures.waits.askers import Askers, askers_of
from analysis.measures.waits.explained import FOREIGN
from analysis.measures.waits.sleeps import Sleeps
from analysis.measures.waits.wakers import wakers_of
from analysis.rundir.tested import tested_filesystem
from analysis.units import bytes_, counted

KEY = "foreign_commit"
WHAT = {  # {}: commits
    "commit": "for their {} ahead of its own",
    "log_space": "for room in the journal that their {} filled",
    "handle": "until their {} let the transaction take handles again",
    "page_io": "for metadata that their {} were writing",
    "device_write": "for its own data beside their {}",
    "flush": "for flushes of the disk's cache beside or after their {}",
}
FOR_JBD2 = ("log_space", "commit", "handle")
SHARED = 0.2  # of the cost: what is shared with the workload's own syncs is a doubt from here on
WEAK = 0.1  # share of the time in which it is a guess who ended a sleep


def find(case: Case) -> Sequence[Finding]:
    """At most one finding."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(FOREIGN)
    # the call path of the others tells that the journal's thread ended the sleep
    guessed = sleeps.where(~sleeps.cause.is_in(FOR_JBD2))
    # a commit that both need is the workload's own: it would wait for one without the others, too
    shared = case.sleeps.shared
    cost = cost_of(case, sleeps.total_ns, guessed.total_weak_ns, shared.total_ns)
    shared_s = case.ledger.seconds(shared.total_ns)
    if not sleeps.total_ns or not case.counts(cost.value_s):
        return []
    askers = askers_of(case.tables, case.results.window, tested_filesystem(case.run).own_numbers)
    because, evidence, name = _who(case, askers, sleeps)
    if not name:
        return []
    because.append(_waits_text(case, sleeps))
    if askers is not None and askers.others_bytes:
        size = f"{bytes_(askers.others_bytes)} of {bytes_(askers.all_bytes)}"
        because.append(f"Their commits wrote {size} that went to the journal.")
    doubts = []
    if shared.total_ns:
        because.append(
            f"{seconds(shared_s)} more are for commits of others that had its own changes, too: not counted."
        )
    if shared.total_ns > SHARED * sleeps.total_ns:
        doubts.append("how far others make a commit longer that both need is not known")
    if guessed.total_weak_ns > WEAK * max(sleeps.total_ns, 1):
        percent = 100 * guessed.total_weak_ns / sleeps.total_ns
        doubts.append(f"in {percent:.0f} % of the time it is a guess who ended a sleep")
    filled = case.ledger.seconds(sleeps.where(sleeps.cause.is_("log_space")).total_ns)
    if filled > cost.value_s / 2:
        doubts.append(
            f"{filled:.2f} s are for room in the journal, which the workload's own metadata takes, too"
        )
    certainty, doubt = certainty_of(case, sleeps, doubts, ("sched", "events"))
    return [
        Finding(
            kind=KEY,
            what=f"Syncs of other programs ({name}) held it up: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=[asleep_evidence(case, sleeps), *evidence],
            certainty=certainty,
            doubt=doubt,
            no_remedy="other programs are not the run's to end",
            test=f"{case.command()}   without {name} beside it",
            lines=frozenset(sleeps.cause.present()),
            line_s=case.line_s(line_ns(sleeps)),
        )
    ]


def _who(case: Case, askers: Askers | None, sleeps: Sleeps) -> tuple[list[str], list[Evidence], str]:
    """Who asked, by the events, else by who ended the sleeps; sentence, evidence and the first name."""
    if askers is not None and askers.others:
        share = 100 * askers.others / askers.all
        names = ", ".join(f"{name} {count:,}" for name, count in askers.by_name[:2])
        whys = ", ".join(f"{why} {count:,}" for why, count in askers.whys[:2])
        commits = (
            f"{askers.others:,} of {askers.all:,} {commit_word(case, number=askers.all)} ({share:.0f} %)"
        )
        text = f"{commits} began for others: {names} ({whys})."
        rows = {"asker_call": "none", "why": whys}
        first = askers.by_name[0][0].split(" (")[0]
        return [text], [Evidence("event", rows, "commits", "", askers.others, None)], first
    wakers = wakers_of(case.results.path, sleeps, case.tables)
    if not wakers:
        return [], [], ""
    names = ", ".join(f"{name} {count:,}" for name, count in wakers[:2])
    row = Evidence("wake", {"wakee_role": WORKLOAD}, "sleeps that they ended", "", sleeps.count, None)
    return [f"These ended its sleeps: {names}."], [row], wakers[0][0]


def _waits_text(case: Case, sleeps: Sleeps) -> str:
    place, _, _ = sleeps.by(sleeps.place)[0]
    several = commit_word(case, place, 2)
    parts = [
        f"{seconds(case.ledger.seconds(ns))} {WHAT.get(cause, f'for: {text_of(cause)}').format(several)}"
        for cause, ns, _ in sleeps.by(sleeps.cause)[:3]
    ]
    where = call_names(sleeps)
    return (
        f"{f'In {where} it' if where else 'It'} waited {', '.join(parts)}; {counted(sleeps.count, 'sleep')}."
    )


RULES = (
    Rule(
        key=KEY,
        order=5,
        sought="another process's syncs",
        collectors=("sched", "events"),
        find=find,
        why_not=lambda case: "" if case.ledger.basis == PATH else "no critical path",
    ),
)
