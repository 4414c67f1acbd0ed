# SPDX-License-Identifier: BSD-2-Clause
"""File data that goes through the journal (data=journal): it is written twice, and commits wait for that."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.at_device import device_time, remedy
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Where
from analysis.findings.remedies import words_of
from analysis.findings.rule import Case, Rule
from analysis.findings.wording import seconds
from analysis.measures.at_device.split import Why
from analysis.rundir.mounted import mount_options
from analysis.units import bytes_, counted

KEY = "data_journal"
OPTION, ORDERED = "data=journal", "data=ordered"
COMMIT = "commit"
JOURNAL = "write journal"


def find(case: Case) -> Sequence[Finding]:
    """One finding: what commits took but for their flushes, by the share of the journal that is file data."""
    time, line = device_time(case), case.ledger.line(COMMIT)
    written = case.results.origins.written.whole if case.results.origins.written is not None else None
    if OPTION not in mount_options(case.run) or time is None or line is None or written is None:
        return []
    if not written.journal or case.sleeps is None:
        return []
    share = min(written.data / written.journal, 1.0)
    flush = time.of.get(Why.FLUSH)
    flush_ns = min(flush.ns, line.ns) if flush is not None and COMMIT in flush.lines else 0.0
    commit_s = case.ledger.seconds(line.ns - flush_ns)
    value = share * commit_s
    at_disk_ns = sum(one.ns for one in line.shares if one.request == JOURNAL)
    low = min(share * case.ledger.seconds(at_disk_ns), value)
    if not case.counts(value):
        return []
    cost = Cost(value, low, max(value, min(case.ledger.seconds(line.ns), case.ledger.wall_s)))
    window = case.results.window
    rows = {"op": "write", "class": "journal"}
    sleeps = case.sleeps.where(case.sleeps.cause.is_(COMMIT))
    return [
        Finding(
            kind=KEY,
            what=f"File data went through the journal first ({OPTION}; {bytes_(written.journal)} of journal):"
            f" {case.of_wall(value)}.",
            because=[
                f"The disk got {bytes_(written.data)} of file data and {bytes_(written.journal)} of journal.",
                f"{counted(sleeps.count, 'sleep')} for commits took {seconds(case.ledger.seconds(line.ns))},"
                f" of it {seconds(case.ledger.seconds(at_disk_ns))} with writes of the journal at the disk,"
                f" {seconds(case.ledger.seconds(flush_ns))} for flushes.",
            ],
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=cost,
            evidence=[
                Evidence("block", rows, "bytes of the journal", "B", float(written.journal), written.data)
            ],
            certainty=Certainty.LIKELY,
            doubt="a commit without the data would take some time, too",
            remedy=remedy(case, _ordered(case), ORDERED, 0.0, cost),
            no_remedy=f"MOUNT= does not ask for {OPTION}",
            test=f"mounted with {ORDERED}: {case.command()}",
            lines=frozenset({COMMIT}),
        )
    ]


def _ordered(case: Case) -> dict[str, str]:
    """The run's own mount options with data=ordered; none if they are not where it has the option from."""
    given = words_of(case).get("MOUNT", "")
    return {"MOUNT": given.replace(OPTION, ORDERED)} if OPTION in given.split(",") else {}


RULES = (Rule(KEY, 12, "", ("block", "sched", "calls"), find),)
