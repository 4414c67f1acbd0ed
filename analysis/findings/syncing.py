# SPDX-License-Identifier: BSD-2-Clause
"""What the rules on the workload's own syncs have in common: calls, parts of a sync, flushes, remedy."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.commit_words import OWN_WRITES, commit_word
from analysis.findings.finding import Cost, Evidence, Finding
from analysis.findings.remedies import ram_words, why_no_ram
from analysis.findings.rule import Case
from analysis.findings.sleeping import (
    CALLS,
    accounts,
    certainty_of,
    cost_of,
    line_ns,
    remedy_of,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.critical_path.ends import text_of
from analysis.measures.ledger import CPU, OTHERS, READY_LINE
from analysis.measures.waits.explained import FOREIGN
from analysis.measures.waits.flushes import flushes_in
from analysis.measures.waits.sleeps import Sleeps
from analysis.units import counted, ns

COMMIT = "commit"
PARTS = {
    "device_write": "its data",
    "writeback": "its data (flusher)",
    "flush": "the disk's cache",
}
PARTS |= {
    "log_space": "room in the journal",
    "handle": "others' handles",
    "page_io": "pages in I/O",
    "lock": "locks",
}

MOST_PARTS = 4
LEAST_PART = 0.01  # of the sleeps: smaller parts are not named
MOST = 0.9  # share of the calls that sleep below a sync, from which on all are taken to be synchronous


def made_finding(
    case: Case, key: str, sleeps: Sleeps, families: Sequence[str], what: str
) -> Sequence[Finding]:
    """The finding on these sleeps; none if they are too short. families: of the table call."""
    cost = cost_of(case, sleeps.total_ns)
    if not case.counts(cost.value_s):
        return []
    call, _, _ = sleeps.by(sleeps.call)[0]
    names = " and ".join(f"{CALLS.get(one, one)}()" for one, _, _ in sleeps.by(sleeps.call)[:2] if one)
    count, total_ns, evidence = _calls(case, families)
    lines = set(sleeps.cause.present())
    is_whole = count and (key != "sync_write" or sleeps.count >= MOST * count)
    in_calls = case.ledger.seconds(total_ns - _others_ns(case, sleeps))
    if is_whole and cost.value_s < in_calls <= case.ledger.wall_s:
        # all of these calls is the sync's: what they did not sleep, they ran or waited for a CPU
        cost = Cost(in_calls, cost.low_s, max(in_calls, cost.high_s))
        lines |= {CPU, READY_LINE, OTHERS}
    parts = ", ".join(
        f"{part} {seconds(case.ledger.seconds(part_ns))}"
        for part, part_ns in _parts(case, sleeps)[:MOST_PARTS]
        if part_ns >= LEAST_PART * sleeps.total_ns
    )
    because = [f"Asleep in them {seconds(case.ledger.seconds(sleeps.total_ns))}: {parts}."]
    if count:
        because.append(f"{ns(total_ns / count)} a call on average, {ns(total_ns)} in all.")
    window = (case.results.window.work_start_ns, case.results.window.work_end_ns)
    flushes = flushes_in(case.tables.top, window)
    if flushes is not None and flushes.count:
        because.append(
            f"{flushes.count:,} flushes of the disk's cache, {ns(flushes.mean_ns)} each at the device,"
            f" together {ns(flushes.total_ns)}."
        )
        row = Evidence(
            "block", {"op": "flush"}, "flushes, issue to completion", "s", flushes.total_ns / 1e9, None
        )
        evidence.append(row)
    number = f"{count:,} " if count else f"{counted(sleeps.count, 'sleep')} in "
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    remedy = None
    if (words := ram_words(case)) is not None:
        # what waited with requests; the rest runs on CPUs, on any disk
        gain = case.ledger.seconds(int(sleeps.device_ns.sum()))
        remedy = remedy_of(case, words, "a disk in memory", cost, gain)
    verb = f"{number}{names or call} {what}"
    return [
        Finding(
            kind=key,
            what=f"{verb}: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=[*accounts(case, sleeps), *evidence],
            certainty=certainty,
            doubt=doubt,
            remedy=remedy,
            no_remedy=why_no_ram(case),
            test="" if remedy else f"{case.command()}   with a workload that does not sync",
            lines=frozenset(lines),
            line_s=case.line_s(line_ns(sleeps)),
        )
    ]


def _parts(case: Case, sleeps: Sleeps) -> list[tuple[str, int]]:
    """What the sleeps were for, most time first."""
    found: dict[str, int] = {}
    for cause in sleeps.cause.present():
        mine = sleeps.where(sleeps.cause.is_(cause))
        for place, part_ns, _ in mine.by(mine.place):
            text = OWN_WRITES.get(place) or PARTS.get(cause) or text_of(cause)
            if cause == COMMIT:
                text = f"the {commit_word(case, place)}"
            found[text] = found.get(text, 0) + part_ns
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))


def _others_ns(case: Case, sleeps: Sleeps) -> int:
    """Time in the same calls that other processes' syncs took: their finding has it."""
    if case.sleeps is None:
        return 0
    others = case.sleeps.of(FOREIGN)
    return int(others.ns[others.call.is_in(sleeps.call.present())].sum())


def _calls(case: Case, families: Sequence[str]) -> tuple[int, int, list[Evidence]]:
    """Number and time of these calls on the tested file system, and the row that says so."""
    table = case.tables.call
    if table is None:
        return 0, 0, []
    mine = table.call.is_in(families) & table.target.is_("target")
    count, total = int(table.count[mine].sum()), int(table.total_ns[mine].sum())
    if not count:
        return 0, 0, []
    names = [label for label in families if table.call.is_(label)[mine].any()]
    rows = {"call": ", ".join(names), "target": "target"}
    return count, total, [Evidence("call", rows, "time in these calls, all threads", "s", total / 1e9, None)]
