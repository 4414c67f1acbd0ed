# SPDX-License-Identifier: BSD-2-Clause
"""The file system's own threads at work on CPUs, while the workload waits: they compress, allocate."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.causes.roles import FILESYSTEM
from analysis.findings.finding import Evidence, Finding, Where
from analysis.findings.remedies import without_options
from analysis.findings.rule import Case, Rule
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share
from analysis.measures.ledger import PATH
from analysis.rundir.mounted import mount_options
from analysis.tables import thread_time

KEY = "fs_cpu"
LEAST_SHARE = 0.2  # of the wall time: every file system has threads that need some CPU
TRANSFORMS = ("compress",)  # mount options that make threads work on each byte
MOST_NAMED = 3


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger = case.ledger
    shares = ledger.shares(_is_theirs)
    value, low, high = ledger.cost_of(shares)
    if ledger.basis != PATH or not case.counts(value) or value < LEAST_SHARE * ledger.wall_s:
        return []
    ran: dict[str, int] = {}
    for share in shares:
        if share.kind == Kind.CPU:
            ran[share.name] = ran.get(share.name, 0) + share.ns
    most = [name for name in ran if case.counts(ledger.seconds(ran[name]))]
    first = sorted(most, key=lambda name: (-ran[name], name))[:MOST_NAMED]
    named = ", ".join(f"{name} {units.seconds(ledger.seconds(ran[name]))} s" for name in first)
    queued_s = ledger.seconds(sum(share.ns for share in shares if share.kind != Kind.CPU))
    because = [f"On a CPU: {named}."] if named else []
    if case.counts(queued_s):
        because.append(
            f"For {units.seconds(queued_s)} s of it the work was ready to run behind such threads,"
            f" on {case.run.cpus or 'an unknown number of'} CPUs."
        )
    options = [option for option in mount_options(case.run) if option.startswith(TRANSFORMS)]
    mounted = f" (mounted with {', '.join(options)})" if options else ""
    window = case.results.window
    without = f"without {', '.join(options)}" if options else "which functions"
    more = {} if options else {"COLLECT": case.run.collect_with("perf")}
    return [
        Finding(
            kind=KEY,
            what=f"The file system's own threads were at work on CPUs{mounted} for {case.of_wall(value)}.",
            because=because,
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, low, high),
            evidence=_evidence(case),
            certainty=case.certainty("", low),
            doubt="",
            remedy=without_options(case, TRANSFORMS, case.cost(value, low, high)),
            no_remedy="MOUNT= has no option that asks for this work",
            test=f"{without}: {case.command(**more)}",
            lines=ledger.keys(_is_theirs),
        )
    ]


def _is_theirs(share: Share) -> bool:
    """A thread of the file system runs, or has the CPU that the work is ready for."""
    return share.role == FILESYSTEM and share.kind in (Kind.CPU, Kind.READY) and not share.is_below


def _evidence(case: Case) -> list[Evidence]:
    rows = {"role": FILESYSTEM}
    threads = case.results.threads
    cpu_ns = sum(row.cpu_ns for row in threads.rows if row.role == FILESYSTEM) if threads else 0
    return [Evidence(thread_time.TABLE.name, rows, "CPU time, all such threads", "s", cpu_ns / 1e9, None)]


RULES = (Rule(KEY, 27, "CPU of the file system's threads", ("sched", "threads"), find),)
