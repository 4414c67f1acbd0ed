# SPDX-License-Identifier: BSD-2-Clause
"""Flame graphs of lock waits: by the call paths of the waiters, and by those of the holders."""

from __future__ import annotations

from analysis import units
from analysis.figures import flamegraph
from analysis.figures.flamegraph import Panel
from analysis.measures.locks import lock_stacks
from analysis.measures.locks.lock_samples import Samples
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.results import Results
from analysis.render.output import Drawing, Made, Output, RunSource
from analysis.sections.lock_labels import ESTIMATED, sampled_share
from analysis.tables.load import Tables

WAITING = "Flame graph of waiting for locks: call paths of the waiters"
HOLDING = "Flame graph of holding locks: call paths of those who held what others waited for"


def _waiting(tables: Tables, results: Results, waits: LockWaits) -> bytes:
    """The waiters' call paths, as wide as the time waited."""
    share = sampled_share(results)
    sampled = f"; {ESTIMATED} scaled from {units.percent(share)} % sampled" if share < 1 else ""
    panel = Panel(
        f"Waiting for locks: {units.ns(waits.total_ns)} in all",
        f"width: time waited; the lock on top, callers below, outermost at the bottom{sampled}",
        lock_stacks.waiting(waits, tables.stacks),
        empty="nobody waited",
    )
    return flamegraph.render([panel])


def _holding(tables: Tables, waits: LockWaits, samples: Samples | None) -> bytes:
    """The holders' call paths when a wait began, and where holders ran by CPU samples."""
    holding = lock_stacks.holding(waits, tables.stacks)
    ran = lock_stacks.ran(samples, tables.stacks) if samples else []
    return flamegraph.render(
        [
            Panel(
                "Where the holder was when the wait began",
                f"width: time others waited, {units.ns(sum(s.ns for s in holding))} in waits whose holder"
                " was seen (mutexes, rwsems); the lock on top, the holder's functions below, its name at"
                " the bottom",
                holding,
                "others spun",
                "others slept",
                "no holder of a waited-for lock was seen",
            ),
            Panel(
                "Where holders ran while others waited",
                f"width: CPU time by samples, {ESTIMATED}{units.ns(sum(s.ns for s in ran))}; a scale of"
                " its own, not comparable with the above",
                ran,
                "ran",
                "",
                "no CPU sample hit a holder" if samples else "CPUs were not sampled",
            ),
        ]
    )


def make(source: RunSource) -> Made:
    """Both flame graphs; nothing for a run without lock waits."""
    tables, results = source.tables, source.results
    waits = results.locks.waits
    if waits is None or results.locks.holders is None or not waits.rows:
        return Made()
    waiting = _waiting(tables, results, waits)
    holding = _holding(tables, waits, results.locks.samples)
    return Made(
        {"lock_waiting.svg": waiting, "lock_holding.svg": holding},
        [Drawing(WAITING, waiting, inline=True), Drawing(HOLDING, holding, inline=True)],
    )


OUTPUT = Output("lock_flamegraphs", 30, ("lock_waiting.svg", "lock_holding.svg"), make)
