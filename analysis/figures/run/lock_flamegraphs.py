# SPDX-License-Identifier: BSD-2-Clause
"""The files on locks beside the report: flame graphs, the blocking graph, folded stacks for other tools."""

from __future__ import annotations

from dataclasses import dataclass

from analysis import units
from analysis.exporters import folded
from analysis.figures import flamegraph
from analysis.figures.flamegraph import Panel
from analysis.figures.run import lock_blocking
from analysis.measures.locks import lock_stacks
from analysis.measures.results import Results
from analysis.sections.lock_labels import ESTIMATED, sampled_share
from analysis.tables.load import Tables

WAITING = "Flame graph of waiting for locks: call paths of the waiters"
HOLDING = "Flame graph of holding locks: call paths of those who held what others waited for"
BLOCKING = "Who waits for whom: call paths, locks, and their holders"


INLINE = (WAITING, HOLDING)
NAMES = (
    "lock_waiting.svg",
    "lock_holding.svg",
    "lock_blocking.png",
    "lock_blocking.svg",
    "waiting.folded",
    "holding.folded",
    "spinning.folded",
)


@dataclass(frozen=True)
class LockFiles:
    """Name and content of each file; and which of the pictures go into the page, in words."""

    files: dict[str, bytes]
    pictures: list[tuple[str, str]]  # words, file


def _waiting_note(results: Results) -> str:
    share = sampled_share(results)
    sampled = f"; {ESTIMATED} scaled from {units.percent(share)} % sampled" if share < 1 else ""
    return f"width: time waited; the lock on top, callers below, outermost at the bottom{sampled}"


def make(tables: Tables, results: Results) -> LockFiles | None:
    """All of them; None for a run without lock waits."""
    found, holders, samples = results.locks.waits, results.locks.holders, results.locks.samples
    if found is None or holders is None or not found.rows:
        return None
    waiting = lock_stacks.waiting(found, tables.stacks)
    holding = lock_stacks.holding(found, tables.stacks)
    ran = lock_stacks.ran(samples, tables.stacks) if samples else []
    unseen = lock_stacks.unseen(samples, tables.stacks) if samples else []
    files = {
        "lock_waiting.svg": flamegraph.render(
            [
                Panel(
                    f"Waiting for locks: {units.ns(found.total_ns)} in all",
                    _waiting_note(results),
                    waiting,
                    empty="nobody waited",
                )
            ]
        ),
        "lock_holding.svg": flamegraph.render(
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
        ),
        "waiting.folded": folded.waiting(waiting),
        "holding.folded": folded.waiting(holding),
        "spinning.folded": folded.spinning(waiting, unseen),
    }
    pictures = [(WAITING, "lock_waiting.svg"), (HOLDING, "lock_holding.svg")]
    graph = lock_blocking.render(found, holders)
    if graph is not None:
        files["lock_blocking.png"], files["lock_blocking.svg"] = graph
        pictures.append((BLOCKING, "lock_blocking.svg"))
    return LockFiles(files, pictures)
