# SPDX-License-Identifier: BSD-2-Clause
"""Which lock next: per run or group of repetitions, the lock with most waiting, and the next one.

The next lock has the longest wait of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.measures.compare.compared_locks import (
    Lock,
    Locks,
    Sums,
    add,
    chained_waits,
    next_lock,
    of_workload,
)
from analysis.measures.compare.compared_run import Compared
from analysis.measures.compare.differences import sides
from analysis.render.document import Section, Table
from analysis.sections.compare.locks import NO_LOCKS, OWN, marked_names, recorded, shown_name, without_locks
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import LITTLE, letters


def _holders(one: Compared, lock: Lock) -> str:
    """In how much of the waiting for the lock its holder waited for another; empty if that was not seen."""
    held = chained_waits(one, lock)
    if held is None:
        return ""
    return (
        f"{one.letter}: the first lock's holder waited for another lock in"
        f" {units.percent(held.chained_ns / held.known_ns)} % of the waiting time, most for {held.second}"
        f" ({units.percent(held.second_ns / held.known_ns)} %)"
    )


def _cells(lock: Lock, sums: Sums, share: float, of_rest: float | None) -> tuple[str, ...]:
    """What the table says of one lock of one run."""
    name = " ".join(shown_name(lock, [{lock: sums}]))
    spun = units.percent(sums.spin_ns / sums.total_ns)
    return name, units.percent(share), units.percent(of_rest), spun


def _together(members: Sequence[Compared]) -> Locks | None:
    """The waiting in all of these runs; None: locks were recorded in none."""
    by_run = [locks for one in members if (locks := of_workload(one)) is not None]
    if not by_run:
        return None
    names = dict.fromkeys(lock for locks in by_run for lock in locks)
    return {lock: add(locks[lock] for locks in by_run if lock in locks) for lock in names}


def build_next_lock(runs: Runs, tags: Tags) -> list[Section]:
    """Per column: the lock with most waiting, and the one that would have most if it were gone."""
    section = Section()
    if not recorded(runs):
        section.absent = NO_LOCKS
        return [section]
    rows = []
    for side in sides(runs):
        members, who, tag = [runs[i] for i in side], letters(side, runs), tags.full[side[0]]
        locks = _together(members)
        if locks is None:
            continue
        top_two = next_lock(locks)
        if top_two is None:
            section.notes.append(f"{who}: its tasks waited for no lock, as far as this kernel can show")
            continue
        which = f"{who} {tag}".strip() + (LITTLE if any(one.emulated for one in members) else "")
        rows.append((which, "1", *_cells(top_two.first, top_two.first_sums, top_two.first_share, None)))
        if top_two.second is None:
            section.notes.append(f"{who}: its tasks waited for no other lock")
            continue
        share, of_rest = top_two.second_share, top_two.second_share_of_rest
        rows.append(("", "2", *_cells(top_two.second, top_two.second_sums, share, of_rest)))
        if (
            top_two.first[0] == top_two.second[0]
            and top_two.first_sums.is_unnamed
            and top_two.second_sums.is_unnamed
        ):
            section.notes.append(f"{who}: both locks are named by their callers and may be one lock")
        section.notes += [note for one in members if (note := _holders(one, top_two.first))]
    if rows:
        heads = ("<run", "<", "<lock", "of all %", "of rest %", "spin %")
        section.tables.append(Table(heads, rows))
    section.notes += [*without_locks(runs), *marked_names(runs)]
    section.definition = (
        f"waiting: spinning and sleeping together, of repetitions the sum. {OWN} of rest %: of the waiting"
        " without the first lock's; spin %: of the lock's own waiting; holders: of the waiting of all tasks"
        " with a recorded holder. This is arithmetic, not a forecast: tasks that no longer wait for one lock"
        " reach the other locks sooner and in greater numbers. In Bryant 2002 a scheduler patch cured ext2's"
        " second lock (run queue); spinning on the first (big kernel lock) went from 30 to 70 % of all CPU"
        " time and ext2 got 30 % slower. Cure the first lock first, then measure again."
    )
    return [section]


SECTIONS = (
    CompareSpec("next_lock", "Which lock next", 1200, build_next_lock, essential=True, collectors=("locks",)),
)
