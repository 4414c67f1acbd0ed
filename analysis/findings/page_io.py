# SPDX-License-Identifier: BSD-2-Clause
"""Pages and buffers in I/O: a writer wants one that is being written, and waits until it is on the disk."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import on_ram
from analysis.findings.finding import Finding
from analysis.findings.remedies import why_no_ram
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
from analysis.measures.waits.explained import PLAIN

KEY = "page_io"
PLACES = {
    "do_get_write_access": "metadata that a commit is writing to the journal",
    "folio_wait_stable": "a page that must not change while it is written (stable pages)",
    "folio_wait_writeback": "a page that is being written back",
}


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: all such waits that no sync and no other process's commit explains."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    cost = cost_of(case, sleeps.total_ns)
    if not case.counts(cost.value_s):
        return []
    places = ", ".join(
        f"{PLACES.get(place, place + '()')} {seconds(case.ledger.seconds(ns))}"
        for place, ns, _ in sleeps.by(sleeps.place)[:3]
    )
    because = [
        sleeps_text(case, sleeps),
        f"Waited for: {places}.",
    ]
    because += [text for text in (ends_text(case, KEY),) if text]
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    return [
        Finding(
            kind=KEY,
            what=f"Writers waited for pages or buffers in I/O: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=accounts(case, sleeps),
            certainty=certainty,
            doubt=doubt,
            remedy=on_ram(case, cost),
            no_remedy=why_no_ram(case),
            test=f"on a disk in memory: {case.command(DISK='ram')}",
            lines=frozenset({KEY}),
        )
    ]


RULES = (Rule(key=KEY, order=28, sought="pages in I/O", collectors=("threads",), find=find, is_bound=True),)
