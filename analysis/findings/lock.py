# SPDX-License-Identifier: BSD-2-Clause
"""A lock: the workload's threads slept or spun for it, one finding for each class of locks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.findings.finding import Certainty, Cost, Evidence, Finding
from analysis.findings.remedies import one_thread, why_not_one_thread
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import certainty_of, where_of
from analysis.findings.wording import seconds
from analysis.measures.ledger import CPU
from analysis.measures.locks.lock_holders import STATE_NAMES
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.locks import LostOnLock, instance_of, lost_on_locks
from analysis.measures.waits.sleeps import Sleeps
from analysis.measures.waits.wakers import other_wakers

KEY = "lock"
ASLEEP_STATES = ("io", "lock", "sleeping")
NO_HOLDER = {
    "readers": "readers held it",
    "nobody": "nobody held it any more",
    "unknown": "it is not known who held it",
    "not_sampled": "it was not sampled who held it",
}
MOST_PATH = 60  # letters of a file's path
LEAST = 0.03  # of the wall time: where threads share a file system some lock always takes one or two percent
LEAST_OTHERS, MOST_OTHERS = (
    0.05,
    0.5,
)  # of the time asleep: other programs are named, are the finding's subject
SURELY = 0.8  # share of the time that must be traced in a finding that is sure


def find(case: Case) -> Sequence[Finding]:
    """One finding for each class of locks that cost enough."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    lost = lost_on_locks(case.results.locks, sleeps, case.results.path, case.tables)
    least_s = LEAST * case.ledger.wall_s
    costly = [one for one in lost if case.ledger.seconds(one.ns) >= least_s]
    return [_finding(case, sleeps, one) for one in costly if case.counts(case.ledger.seconds(one.ns))]


def _finding(case: Case, sleeps: Sleeps, lost: LostOnLock) -> Finding:
    ledger = case.ledger
    value = min(ledger.seconds(lost.ns), ledger.wall_s)
    traced = lost.sleep_ns + lost.spin_ns
    low = min(ledger.seconds(traced + lost.unseen_low_ns), value)
    # by the lock's own account a wait ends as the waiter runs again, not as it is woken
    asleep = max(lost.sleep_ns, lost.traced_sleep_ns)
    most = ledger.seconds(asleep + lost.spin_ns + lost.unseen_high_ns)
    high = min(max(most, value), max(ledger.wall_s, value))
    spun = ledger.seconds(lost.spin_ns + lost.unseen_ns)
    slept = ledger.seconds(lost.sleep_ns)
    at_once = ledger.threads * value / ledger.wall_s
    threads = f", the mean of {ledger.threads} threads, {at_once:.1f} at once" if ledger.threads > 1 else ""
    mostly = f", most of their time in {lost.callers}" if lost.callers else ""
    traced_text = f"{lost.waits:,} waits were traced{mostly}"
    because = [f"Spinning {seconds(spun)}, asleep {seconds(slept)}{threads}; {traced_text}."]
    instance = instance_of(case.results.locks, lost.name)
    where = where_of(case, sleeps if slept >= spun else sleeps.where(sleeps.ns < 0))
    if instance is not None and instance.ino:
        path = instance.path[:MOST_PATH]
        where = replace(where, files=(instance.path,) if instance.path else ())
        share = (instance.spin_ns + instance.sleep_ns) / max(lost.longest.total_ns if lost.longest else 1, 1)
        named = f"inode {instance.ino}{f' (/{path.lstrip(chr(47))})' if path else ''}"
        because.append(f"The lock of {named} has {100 * min(share, 1):.0f} % of the traced wait.")
    others, text, by_whom = _others(case, sleeps, lost)
    because += [one for one in (_holder(case, lost), text) if one]
    doubts = []
    if traced < SURELY * lost.ns:
        by_samples = ledger.seconds(lost.unseen_ns)
        doubts.append(f"{by_samples:.2f} s of it are CPU samples of spinning that no tracepoint shows")
    certainty, doubt = certainty_of(case, sleeps, doubts, ("locks", "threads"))
    evidence = _evidence(case, lost)
    name = f"{lost.types[0].split(':')[0]} {lost.name}" if lost.types else lost.name
    lines = {KEY, CPU} if spun > 0 else {KEY}
    cost = Cost(value, low, high)
    return Finding(
        kind=KEY,
        what=f"A lock{others}, {name}: {case.of_wall(value)}.",
        because=because,
        where=where,
        cost=cost,
        evidence=evidence,
        certainty=certainty if value > 0 else Certainty.POSSIBLE,
        doubt=doubt,
        remedy=None if others else one_thread(case, cost),
        no_remedy="other programs are not the run's to end" if others else why_not_one_thread(case, cost),
        test=f"{case.command()}   without {by_whom} beside it"
        if others
        else f"{case.command()}   with one thread, or with a directory or file for each",
        lines=frozenset(lines),
    )


def _others(case: Case, sleeps: Sleeps, lost: LostOnLock) -> tuple[str, str, str]:
    """Who else held it: words for the finding if they ended most of its waits, a sentence, and their names.

    By the sleeps for all locks of the functions in which this one was waited for.
    """
    mine = sleeps.where(sleeps.place.is_in(tuple(lost.places)))
    by_name = other_wakers(case.results.path, mine, case.tables)
    ns = sum(one for _, one in by_name)
    if not ns or ns < LEAST_OTHERS * mine.total_ns:
        return "", "", ""
    names = ", ".join(name for name, _ in by_name[:2])
    text = f"Other programs released it ({names}): {seconds(case.ledger.seconds(ns))} of the time asleep."
    return (f" held by other programs ({names})" if ns >= MOST_OTHERS * mine.total_ns else ""), text, names


def _holder(case: Case, lost: LostOnLock) -> str:
    """Who held it in most of the traced wait."""
    holders, waits = case.results.locks.holders, case.results.locks.waits
    if holders is None or waits is None:
        return ""
    mine = [one for one in holders.holders if waits.rows[one.row].name == lost.name]
    total = sum(one.ns for one in mine)
    if not mine or not total:
        return ""
    first = max(mine, key=lambda one: one.ns)
    share = 100 * first.ns / total
    what = f"{first.comm or 'a thread not known'} held it, {STATE_NAMES.get(first.state, first.state)}"
    if first.state in NO_HOLDER:
        what = NO_HOLDER[first.state]
    path = f" in {first.path}" if first.state in ASLEEP_STATES and first.path else ""
    return f"In {share:.0f} % of that {what}{path}."


def _evidence(case: Case, lost: LostOnLock) -> list[Evidence]:
    rows = {"name": lost.name}
    mine = [row for row in case.results.locks.rows or [] if row.name == lost.name]
    slept = sum(row.workload_sleep_ns for row in mine) / 1e9
    spun = sum(row.workload_spin_ns for row in mine) / 1e9
    evidence = [
        Evidence("lock_wait", rows, "asleep, the workload's threads", "s", slept, None),
        Evidence("lock_wait", rows, "spinning, the workload's threads", "s", spun, None),
    ]
    if lost.unseen_ns:
        seen = [
            one
            for one in (case.results.locks.samples.spins if case.results.locks.samples else [])
            if (one.key[1] if one.key else one.name) == lost.name
        ]
        by_samples = sum(one.seen.ns for one in seen) / 1e9
        evidence.append(Evidence("lock_sample", rows, "spinning unseen, by samples", "s", by_samples, None))
    return evidence


RULES = (Rule(key=KEY, order=30, sought="a lock", collectors=("locks", "threads"), find=find),)
