# SPDX-License-Identifier: BSD-2-Clause
"""Bound by the workload's own code on a CPU: neither the file system nor the disk."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import front, units
from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.cpu.split import USER, measure_split
from analysis.measures.ledger import CPU
from analysis.measures.threads.results import ThreadRow
from analysis.tables import thread_time

KEY = "generator"
LEAST_SHARE = 0.05  # of the wall time: every program needs some
LEAST_SAMPLES = 100


def find(case: Case) -> Sequence[Finding]:
    """One finding for the whole run."""
    ledger = case.ledger
    split = measure_split(case.tables.get(thread_time.TABLE), case.tables.call)
    line = ledger.line(CPU)
    if split is None or line is None or USER not in split.parts:
        return []
    part, cpu_s = split.parts[USER], ledger.seconds(line.ns)
    value = cpu_s * part.share
    if not case.counts(value) or value < LEAST_SHARE * ledger.wall_s:
        return []
    cost = ledger.cost(line.ns, line.weak_ns)
    window, few = case.results.window, part.samples < LEAST_SAMPLES
    threads = case.results.threads
    rows: list[ThreadRow] = [row for row in threads.rows if row.role == WORKLOAD] if threads else []
    busiest = sorted(rows, key=lambda row: -row.cpu_ns)[:3]
    parts = [f"{row.name} {units.seconds(row.cpu_ns / 1e9)} s" for row in busiest if row.cpu_ns]
    return [
        Finding(
            kind=KEY,
            what=f"The workload's own code took {case.of_wall(value)} on a CPU: no file system and no disk.",
            because=(
                f"{part.samples:,} of {split.samples:,} CPU samples of its threads are outside the kernel.",
                f"CPU time by program, kernel included: {', '.join(parts) or 'less than 0.01 s each'}.",
            ),
            where=Where(window.work_start_ns, window.work_end_ns),
            cost=case.cost(value, cost[1] * part.low, cpu_s * part.high + cost[2] - cpu_s),
            evidence=[
                Evidence(
                    "thread_time",
                    {"role": WORKLOAD, "state": USER},
                    "time on a CPU",
                    "s",
                    part.ns / 1e9,
                    None,
                )
            ],
            certainty=Certainty.LIKELY if few else Certainty.SURE,
            doubt=f"only {part.samples} CPU samples tell the program from the kernel" if few else "",
            no_remedy="it is the program that is run",
            test=_test(case),
            lines=frozenset({CPU}),
        )
    ]


def _test(case: Case) -> str:
    if case.run.text("words", "FS"):
        return f"a RAM disk changes nothing of it: {case.command(DISK='ram')}"
    return f"{front.command(f'query RUN={case.run.path}')} SQL=\"from thread_time where state = 'user'\""


RULES = (Rule(KEY, 32, "the workload's own code", ("threads",), find, is_bound=True),)
