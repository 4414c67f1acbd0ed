# SPDX-License-Identifier: BSD-2-Clause
"""The journal or log was full: the workload waited for room in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.findings.finding import Cost, Evidence, Finding, Remedy
from analysis.findings.remedies import noatime
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    calls_text,
    certainty_of,
    cost_of,
    line_ns,
    rate_evidence,
    remedy_of,
    stops,
    stops_text,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.waits.by_others import slept_by_others
from analysis.measures.waits.commits import is_tested
from analysis.measures.waits.explained import FOR_SPACE, PLAIN
from analysis.measures.waits.journal import Journal, journal_of, larger_words
from analysis.measures.waits.meanwhile import overlaps, written
from analysis.measures.waits.sleeps import Sleeps
from analysis.rundir.tested import tested_filesystem
from analysis.tables import event, thread_time
from analysis.tables.store import I64
from analysis.units import bytes_, counted

KEY = "log_space"
COMMITS = ("jbd2_commit", "xfs_log_force")
MOST_SLEEPS = 8  # of a stop: a commit and a checkpoint are waited for in several; with more it is one if
LEAST_RATE = 0.1  # the application's rate in it is no more than this of the rate outside
LEAST_BEHIND = 0.1  # of the time: waits for locks that make the finding less sure
LEAST_OTHERS, MOST_OTHERS = 0.05, 0.5  # of its waits: others' are told, are in the finding's subject
LEAST_OF_WRITES = 0.5  # of the bytes written meanwhile: a submitter with more is named


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all waits for room that nothing more specific explains."""
    if case.sleeps is None:
        return []
    all_ = case.sleeps
    own = all_.explained.is_(PLAIN) & all_.cause.is_(KEY)
    behind = all_.of(FOR_SPACE)
    sleeps = all_.where(own | all_.explained.is_(FOR_SPACE))
    cost = cost_of(case, sleeps.total_ns)
    if not case.counts(cost.value_s):
        return []
    journal = journal_of(case.run)
    spans = stops(sleeps) if sleeps.is_timed else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    rates, rate_text = rate_evidence(case, spans)
    commits, commit_text = _commits(case, spans)
    writes, write_text = _writes(case, spans)
    size = f" of {bytes_(journal.size_bytes)}" if journal.size_bytes else ""
    # where it got on between the waits, a stretch of them is no stop
    stood_still = any(rate.outside and rate.inside <= LEAST_RATE * rate.outside for rate in rates)
    is_stop = sleeps.is_timed and (stood_still or sleeps.count <= MOST_SLEEPS * spans[0].size)
    how = f", {stops_text(sleeps)}" if is_stop else f": {counted(sleeps.count, 'sleep')}, the longest"
    how += "" if is_stop else f" {seconds(sleeps.longest_ns / 1e9)}"
    waited = f"In {calls_text(case, sleeps)} it waited for room{how}." if calls_text(case, sleeps) else ""
    others, others_text = _others(case, sleeps)
    doubts, behind_text = [], ""
    if behind.total_ns:
        behind_s = case.ledger.seconds(behind.total_ns)
        number = counted(behind.count, "sleep")
        behind_text = f"{seconds(behind_s)} of it for locks, while a thread waited for room: {number}."
        if behind.total_ns > LEAST_BEHIND * sleeps.total_ns:
            doubts.append("that the locks' holders waited for room is concluded from the time")
    certainty, doubt = certainty_of(case, sleeps, doubts, ("sched", "threads"))
    number = f" {spans[0].size:,} times" if is_stop else ""
    remedy = _remedy(case, journal, sleeps, cost)
    return [
        Finding(
            kind=KEY,
            what=f"The {journal.name}{size}{others} was full{number}: {case.of_wall(cost.value_s)}.",
            because=[
                text
                for text in (waited, others_text, write_text, rate_text, behind_text, commit_text)
                if text
            ],
            where=where_of(case, sleeps),
            cost=cost,
            evidence=[
                *accounts(case, sleeps),
                *rates,
                *commits,
                *writes,
            ],
            certainty=certainty,
            doubt=doubt,
            remedy=remedy,
            no_remedy=f"no larger {journal.name} is known for this file system on this disk",
            test="" if remedy else case.command() + "   on a file system made with a larger " + journal.name,
            lines=frozenset(sleeps.cause.present()),
            line_s=case.line_s(line_ns(sleeps)),
        )
    ]


def _others(case: Case, sleeps: Sleeps) -> tuple[str, str]:
    """Who else waited for room: words for the finding if they did so about as long, and a sentence."""
    slept = slept_by_others(case.tables.get(thread_time.TABLE), KEY)
    ns, own_ns = sum(one for _, one in slept), sleeps.total_ns
    if not ns or ns < LEAST_OTHERS * own_ns:
        return "", ""
    names = ", ".join(f"{name} {seconds(one / 1e9)}" for name, one in slept[:2])
    text = f"Other programs waited for room in a journal, too: {names}."
    return (f", which other programs fill, too ({slept[0][0]})," if ns >= MOST_OTHERS * own_ns else ""), text


def _commits(case: Case, spans: tuple[I64, I64]) -> tuple[list[Evidence], str]:
    """Commits or log forces under way meanwhile."""
    table = case.tables.get(event.TABLE)
    if table is None or not spans[0].size:
        return [], ""
    kind = next((one for one in COMMITS if table.kind.is_(one).any()), None)
    if kind is None:
        return [], ""
    window = case.results.window
    mine = table.kind.is_(kind) & is_tested(table, tested_filesystem(case.run).own_numbers)
    mine &= (table.end_ns >= window.work_start_ns) & (table.start_ns <= window.work_end_ns)
    size, lasted = (int(values[mine].sum()) for values in (table.bytes, table.end_ns - table.start_ns))
    inside = int((mine & overlaps(table.start_ns, table.end_ns, spans)).sum())
    row = Evidence("event", {"kind": kind}, "under way meanwhile", "", inside, int(mine.sum()) - inside)
    wrote = f", {bytes_(size)} of the {journal_of(case.run).name}" if size else ""
    name = {"jbd2_commit": "commits", "xfs_log_force": "log forces"}[kind]
    text = f"{inside:,} of {int(mine.sum()):,} {name} were under way meanwhile"
    return [row], f"{text}; all took {lasted / 1e9:.2f} s{wrote}."


def _writes(case: Case, spans: tuple[I64, I64]) -> tuple[list[Evidence], str]:
    """Who wrote meanwhile."""
    sent = written(case.tables.block, spans) if spans[0].size else None
    if sent is None or not sent.by_comm:
        return [], ""
    comm, size = sent.by_comm[0]
    if size < LEAST_OF_WRITES * sent.all_bytes:
        return [], ""
    row = Evidence("block", {"op": "write", "comm": comm}, "written meanwhile", "bytes", size, None)
    by_class = dict(sent.by_class)
    data = by_class.get("data", 0)
    ordered = (
        f", {bytes_(data)} of it file data (data=ordered)"
        if comm.startswith("jbd2/") and data > LEAST_OF_WRITES * sent.all_bytes
        else ""
    )
    return [row], f"{comm} sent {bytes_(size)} of the {bytes_(sent.all_bytes)} written meanwhile{ordered}."


def _remedy(case: Case, journal: Journal, sleeps: Sleeps, cost: Cost) -> Remedy | None:
    larger = larger_words(case.run, journal)
    if larger is None:
        return noatime(case, sleeps, cost)
    # what waited on a CPU will compete for it as before
    return remedy_of(
        case, {"MKFS": larger[0]}, larger[1], cost, case.ledger.seconds(int(sleeps.device_ns.sum()))
    )


RULES = (
    Rule(
        key=KEY,
        order=10,
        sought="a full journal",
        collectors=("threads",),
        find=find,
    ),
)
