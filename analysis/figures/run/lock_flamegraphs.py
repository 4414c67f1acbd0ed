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

WAITING = "Flame graph of lock waits, by the waiters' call paths"
HOLDING = "Flame graph of lock waits, by the holders' call paths"


def _waiting(tables: Tables, results: Results, waits: LockWaits) -> bytes:
    """The waiters' call paths, as wide as the time waited."""
    share = sampled_share(results)
    sampled = f"; {ESTIMATED} scaled from {units.percent(share)} % sampled" if share < 1 else ""
    panel = Panel(
        f"Lock waits by the waiter's call path: {units.ns(waits.total_ns)} in total",
        f"width: time waited; the lock on top, its callers below, the outermost at the bottom{sampled}",
        lock_stacks.waiting(waits, tables.stacks),
        empty="no lock was waited on",
    )
    return flamegraph.render([panel])


def _holding(tables: Tables, waits: LockWaits, samples: Samples | None) -> bytes:
    """The holders' call paths when a wait began, and where holders ran by CPU samples."""
    holding = lock_stacks.holding(waits, tables.stacks)
    ran = lock_stacks.ran(samples, tables.stacks) if samples else []
    return flamegraph.render(
        [
            Panel(
                "Lock waits by the holder's call path when the wait began",
                f"width: time others waited, {units.ns(sum(s.ns for s in holding))} in waits with a known"
                " holder (mutexes, rwsems); the lock on top, the holder's functions below, its thread's name"
                " at the bottom",
                holding,
                "others spun",
                "others slept",
                "no wait has a known holder",
            ),
            Panel(
                "CPU time of holders while others waited",
                f"width: CPU time by samples, {ESTIMATED}{units.ns(sum(s.ns for s in ran))}; not on"
                " the scale of the graph above",
                ran,
                "ran",
                "",
                "no CPU sample is of a holder" if samples else "CPUs were not sampled",
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
