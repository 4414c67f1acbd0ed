# SPDX-License-Identifier: BSD-2-Clause
"""The apparatus below a disk file: loop workers, and the file system and disk that have the file.

What ready workers waited for a CPU that other programs had is theirs (cpu_taken.py), not the apparatus's. So
is what requests waited in it while it served others' (other_requests.py, background.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis import units
from analysis.causes.roles import DISK
from analysis.findings.finding import Cost, Evidence, Finding, Remedy, Where
from analysis.findings.remedies import ram_words, why_no_ram
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why
from analysis.measures.critical_path.ends import APPARATUS, DEVICE, end_of
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share
from analysis.measures.ledger import PATH

KEY = "apparatus"
MOST_NAMED = 4


def is_apparatus(share: Share) -> bool:
    """Whether a share ends in what serves the disk, other than the disk itself."""
    if end_of(share)[0] != APPARATUS:
        return False
    if share.kind == Kind.READY:
        return share.role == DISK
    return share.is_below or share.role == DISK or share.kind == Kind.OTHER_DISK


def _shares(case: Case) -> list[Share]:
    """The apparatus's shares; of a loop device's only the part in which it did not serve others' requests."""
    shares = case.ledger.shares(is_apparatus)
    time = case.results.device_time
    whole = sum(share.ns for share in shares if share.is_below)
    if time is None or not whole:
        return shares
    others = sum(time.of[why].machinery_ns for why in (Why.OTHERS, Why.BACKGROUND) if why in time.of)
    left = max(1 - others / whole, 0.0)
    return [
        replace(share, ns=round(left * share.ns), weak_ns=round(left * share.weak_ns))
        if share.is_below
        else share
        for share in shares
    ]


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger, run = case.ledger, case.run
    shares = _shares(case)
    ns, weak_ns = sum(share.ns for share in shares), sum(share.weak_ns for share in shares)
    value, low, high = ledger.cost(ns, weak_ns)
    if ledger.basis != PATH or not case.counts(value):
        return []
    of_line = ((line.key, filter(is_apparatus, line.shares)) for line in ledger.lines)
    by_line = {key: part for key, own in of_line if (part := sum(share.ns for share in own))}
    by_end: dict[str, int] = {}
    for share in shares:
        text = end_of(share)[1].removeprefix("apparatus: ")
        by_end[text] = by_end.get(text, 0) + share.ns
    named = [
        f"{text} {units.seconds(ledger.seconds(one))} s"
        for text, one in sorted(by_end.items(), key=lambda item: -item[1])
        if ledger.seconds(one) >= 0.005
    ][:MOST_NAMED]
    device_s = ledger.seconds(sum(line.ends.get(DEVICE, 0) for line in ledger.lines))
    remedy = None
    if (words := ram_words(case)) is not None:
        both = min(value + device_s, ledger.wall_s)
        text = f"a RAM disk, which has no such apparatus, nor the disk's own {units.seconds(device_s)} s"
        remedy = Remedy(words, text, Cost(both, 0.0, both))
    window, threads = case.results.window, case.results.threads
    cpu_ns = sum(part.ns for part in (threads.of(DISK) if threads else []) if part.is_on_cpu)
    own = sum(share.ns for share in ledger.shares(lambda share: end_of(share)[0] == DEVICE))
    doubt = f"{units.seconds(ledger.seconds(weak_ns))} s rest on a guess" if weak_ns > 0.2 * ns else ""
    name = run.text("device", "name") or "the disk"
    return [
        Finding(
            kind=KEY,
            what=f"What serves {name} in software, not the disk below, took {case.of_wall(value)}.",
            because=(
                f"It is: {', '.join(named)}.",
                f"The disk had requests of the path for {units.seconds(ledger.seconds(own))} s.",
            ),
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=[
                Evidence("thread_time", {"role": DISK}, "CPU time of its threads", "s", cpu_ns / 1e9, None)
            ],
            certainty=case.certainty(doubt, low),
            doubt=doubt,
            remedy=remedy,
            no_remedy=why_no_ram(case),
            test="" if remedy else f"on a disk without a loop device or volume: {case.command()}",
            lines=frozenset(by_line),
            line_s=case.line_s(by_line),
        )
    ]


RULES = (Rule(KEY, 40, "the apparatus below the disk", ("sched",), find, is_bound=True),)
