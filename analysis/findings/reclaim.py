# SPDX-License-Identifier: BSD-2-Clause
"""Too little memory: the workload frees pages itself to get new ones, and reads again what had left."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import device_time
from analysis.findings.finding import Cost, Evidence, Finding
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    asleep_evidence,
    certainty_of,
    remedy_of,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.at_device.split import Why
from analysis.measures.block.again import AgainPages, pages_read_again
from analysis.measures.ledger import CPU
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.memory import reclaim_of
from analysis.units import bytes_

KEY = "reclaim"
READS, QUEUE = ("device_read", "fault"), "queue"  # of a mapped file, the fault reads
READ_DATA = "read data"  # label of requests
READ_WHYS = (Why.AGAIN, Why.COLD, Why.COLD_METADATA, Why.SMALL_READS)
PAGE_BYTES = 4096


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: direct reclaim, with the reads that it makes necessary."""
    if case.sleeps is None:
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    window = (case.results.window.work_start_ns, case.results.window.work_end_ns)
    reclaim = reclaim_of(case.tables, case.results.path, window)
    slept = case.ledger.seconds(sleeps.total_ns)
    own = max(slept, case.ledger.seconds(reclaim.ns) if reclaim is not None else 0.0)
    if not own:
        return []
    reads = case.sleeps.of(PLAIN, *READS)
    # a reader waits for a place in the queue, too, to send what it reads ahead
    in_queue = case.ledger.shares(lambda share: share.own.cause == QUEUE and share.request == READ_DATA)
    read_ns = reads.total_ns + sum(share.ns for share in in_queue)
    again = pages_read_again(case.tables.block) if read_ns else None
    share = _share(case, again)
    read_s = case.ledger.seconds(read_ns)
    value = min(own + share * read_s, case.ledger.wall_s)
    if not case.counts(value):
        return []
    limit = case.run.int_("workload", "mem_bytes")
    because, evidence = [], []
    if reclaim is not None and reclaim.count:
        whose = "the cgroup's" if reclaim.by_memcg else "the machine's"
        because.append(
            f"It freed {bytes_(reclaim.pages * PAGE_BYTES)} itself in {reclaim.count:,} rounds,"
            f" {seconds(own)} together (asleep {seconds(slept)}): {whose} memory was used up."
        )
        row = {"kind": "direct_reclaim"}
        evidence.append(Evidence("event", row, "in direct reclaim, the path's threads", "s", own, None))
    if sleeps.total_ns:
        evidence.append(asleep_evidence(case, sleeps))
    if again is not None and share:
        because.append(
            f"{bytes_(again.again_bytes)} of the {bytes_(again.bytes)} of data read had been in memory before"
            f" ({100 * again.share:.0f} %): of {seconds(read_s)} waited for reads, {seconds(share * read_s)}."
        )
        row = {"op": "read", "class": "data"}
        evidence.append(Evidence("block", row, "read again", "bytes", again.again_bytes, None))
    if limit:
        because.append(f"Its memory is limited to {bytes_(limit)} (MEM=).")
    doubts = []
    if reclaim is None or not reclaim.count:
        doubts.append("events of direct reclaim were not recorded, only sleeps")
    if again is None and read_s > own:
        doubts.append(
            "the requests are too many to tell, or were not recorded: what was read again is not known"
        )
    if share * read_s > own:
        doubts.append("most of it are reads, shared out by requests")
    certainty, doubt = certainty_of(case, sleeps, doubts, ("events", "threads"))
    high = max(
        value,
        min(
            own + (read_s if share else 0.0) + case.ledger.seconds(case.ledger.unknown_ns), case.ledger.wall_s
        ),
    )
    cost = Cost(value, min(own, value), high)
    waits = {QUEUE} if share and in_queue else set()
    remedy = remedy_of(case, {"MEM": ""}, "no memory limit", cost) if limit else None
    return [
        Finding(
            kind=KEY,
            what=f"Memory was too small{f' ({bytes_(limit)})' if limit else ''}: {case.of_wall(value)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=evidence,
            certainty=certainty,
            doubt=doubt,
            remedy=remedy,
            no_remedy="the machine has no more memory",
            test="" if remedy else f"{case.command()}   with more memory",
            lines=frozenset({KEY, CPU, *(reads.cause.present() if share else [])} | waits),
        )
    ]


def _share(case: Case, again: AgainPages | None) -> float:
    """Of the time of reads: of what had been in memory, by the path's time at each; without it, by bytes."""
    if again is None or not again.share:
        return 0.0
    time = device_time(case)
    ns = {why: time.of[why].ns for why in READ_WHYS if why in time.of} if time else {}
    return ns.get(Why.AGAIN, 0.0) / sum(ns.values()) if sum(ns.values()) else again.share


RULES = (Rule(key=KEY, order=25, sought="too little memory", collectors=("threads",), find=find),)
