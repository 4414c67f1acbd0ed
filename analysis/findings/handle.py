# SPDX-License-Identifier: BSD-2-Clause
"""Others' open handles: a transaction that is to be committed takes no new one until its last is closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.findings.finding import Evidence, Finding
from analysis.findings.remedies import noatime, one_thread, why_not_one_thread
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    certainty_of,
    cost_of,
    ends_text,
    sleeps_text,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.critical_path.ends import text_of
from analysis.measures.waits.commits import is_tested
from analysis.measures.waits.explained import PLAIN
from analysis.rundir.tested import tested_filesystem
from analysis.tables import event, thread_time
from analysis.tables.thread_rows import ASLEEP

KEY = "handle"
COMMIT = "jbd2_commit"


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all waits that no other process's commit explains."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    cost = cost_of(case, sleeps.total_ns)
    if not case.counts(cost.value_s):
        return []
    because = [sleeps_text(case, sleeps)]
    locked, evidence = _locked(case)
    holders = _held_up(case)
    because += [text for text in (locked, ends_text(case, KEY), holders) if text]
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    return [
        Finding(
            kind=KEY,
            what=f"Threads waited for others' open journal handles: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=[*accounts(case, sleeps), *evidence],
            certainty=certainty,
            doubt=doubt,
            remedy=noatime(case, sleeps, cost) or one_thread(case, cost),
            no_remedy=why_not_one_thread(case, cost),
            test=f"{case.command()}   with one thread",
            lines=frozenset({KEY}),
        )
    ]


def _locked(case: Case) -> tuple[str, list[Evidence]]:
    """How long commits waited for open handles."""
    table = case.tables.get(event.TABLE)
    if table is None or not table.kind.is_(COMMIT).any():
        return "", []
    window = case.results.window
    mine = table.kind.is_(COMMIT) & is_tested(table, tested_filesystem(case.run).own_numbers)
    mine &= (table.end_ns >= window.work_start_ns) & (table.start_ns <= window.work_end_ns)
    locked = int(table.p3_ns[mine].sum()) / 1e9
    text = f"{int(mine.sum()):,} commits waited {seconds(locked)} until all handles were closed."
    return text, [Evidence("event", {"kind": COMMIT}, "commits wait for open handles", "s", locked, None)]


def _held_up(case: Case) -> str:
    """What threads slept for with a handle open."""
    times = case.tables.get(thread_time.TABLE)
    if times is None:
        return ""
    rows = np.flatnonzero(times.in_transaction & times.state.is_in(ASLEEP))
    if not rows.size:
        return ""
    sums = np.bincount(times.cause.codes[rows], times.ns[rows], len(times.cause.labels))
    at = int(sums.argmax())
    label = text_of(times.cause.labels[at])
    return f"With a handle open, threads slept {seconds(float(sums.sum()) / 1e9)}, most for: {label}."


RULES = (Rule(key=KEY, order=15, sought="others' open handles", collectors=("threads",), find=find),)
