# SPDX-License-Identifier: BSD-2-Clause
"""Room in reservations: Btrfs makes a writer wait until space for its metadata or data is free."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.finding import Evidence, Finding
from analysis.findings.remedies import noatime, one_thread, why_not_one_thread
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    certainty_of,
    cost_of,
    rate_evidence,
    sleeps_text,
    stops,
    where_of,
)
from analysis.measures.waits.explained import PLAIN
from analysis.rundir.run import as_int, dig
from analysis.tables import event
from analysis.units import bytes_

KEY = "reservation"


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all waits for reservations."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    cost = cost_of(case, sleeps.total_ns)
    if not case.counts(cost.value_s):
        return []
    because = [sleeps_text(case, sleeps)]
    events, text = _tickets(case)
    because += [one for one in (text, _space(case)) if one]
    rates, text = rate_evidence(case, stops(sleeps)) if sleeps.is_timed else ([], "")
    because += [text] if text else []
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    return [
        Finding(
            kind=KEY,
            what=f"Writers waited for room in the file system's reservations: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=[*accounts(case, sleeps), *rates, *events],
            certainty=certainty,
            doubt=doubt,
            remedy=noatime(case, sleeps, cost) or one_thread(case, cost),
            no_remedy=why_not_one_thread(case, cost),
            test=f"{case.command()}   on a larger disk",
            lines=frozenset({KEY}),
        )
    ]


def _tickets(case: Case) -> tuple[list[Evidence], str]:
    """Tickets and the steps that made room."""
    table = case.tables.get(event.TABLE)
    if table is None:
        return [], ""
    tickets, steps = table.kind.is_("btrfs_ticket"), table.kind.is_("btrfs_flush_space")
    if not tickets.any():
        return [], ""
    wanted = int(table.bytes[tickets].sum())
    text = f"{int(tickets.sum()):,} tickets for {bytes_(wanted)}; {int(steps.sum()):,} steps to make room."
    return [Evidence("event", {"kind": "btrfs_ticket"}, "tickets", "", int(tickets.sum()), None)], text


def _space(case: Case) -> str:
    """How full the file system was at the end."""
    after = dig(case.run.facts, "filesystem", "space", "after_run")
    used, total = (
        as_int(dig(after, key)) if isinstance(after, dict) else None for key in ("used_bytes", "total_bytes")
    )
    if not used or not total:
        return ""
    return f"At the end {bytes_(used)} of {bytes_(total)} were used ({100 * used / total:.0f} %)."


RULES = (Rule(key=KEY, order=15, sought="room in reservations", collectors=("threads",), find=find),)
