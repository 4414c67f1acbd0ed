# SPDX-License-Identifier: BSD-2-Clause
"""Lock holders by stack: what the holders of mutexes and rwsems did while others waited, and where."""

from __future__ import annotations

from analysis import units
from analysis.measures.locks import lock_holders, lock_names, lock_samples
from analysis.measures.locks.lock_holders import Chain, Holders
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.lock_labels import ESTIMATED, TOP, comm_text, interval, name
from analysis.sections.spec import LOCKS, SectionSpec
from analysis.tables.load import Tables

TOP_HOLDERS = 8
TOP_CHAINS = 6
TOP_RAN = 6


def build_holders_by_stack(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Holders' states by lock, their stacks, chains of holders, and where holders ran."""
    if not results.locks.rows:
        return []
    section = Section()
    waits, holders = results.locks.waits, results.locks.holders
    if waits is None or holders is None:
        section.absent = run.absent("locks")
        return [section]
    if not holders.known_ns:
        section.absent = "no wait on a mutex or rwsem with a known holder was recorded"
        return [section]
    shown = [s for j, s in enumerate(lock_holders.STATES) if holders.state_ns[:, j].any()]
    body = []
    for i, r in enumerate(waits.rows):
        states = dict(zip(lock_holders.STATES, holders.state_ns[i], strict=True))
        if sum(states[s] for s in lock_holders.STATES[: lock_holders.STATES.index("unknown")]) <= 0:
            continue
        total = sum(states.values())
        body.append(
            (f"{r.type} {name(r)}", units.ns(total), *(units.percent(states[s] / total) for s in shown))
        )
        if len(body) == TOP:
            break
    heads = [lock_holders.SHORT.get(s, s) for s in shown]
    section.tables.append(Table(("<lock; % of the wait by holder's state", "wait", *heads), body))
    _holder_stacks(section, waits, holders)
    _chains(section, waits, holders)
    _ran(section, tables, results)
    section.definition = lock_holders.DEFINITION
    return [section]


def _holder_stacks(section: Section, waits: LockWaits, holders: Holders) -> None:
    body = []
    total = waits.total_ns
    for h in holders.holders[:TOP_HOLDERS]:
        row = waits.rows[h.row]
        state = lock_holders.STATE_NAMES[h.state]
        body.append(
            (
                units.ns(h.ns),
                units.percent(h.ns / total),
                f"{row.type} {name(row)}: {comm_text(h.comm)}, {state}",
            )
        )
        body.append(("", "", f"  {h.path}"))
    if body:
        section.tables.append(Table(("waited", "share %", "<lock: holder, and its call path"), body))


def _chains(section: Section, waits: LockWaits, holders: Holders) -> None:
    """Merge chains of the same locks and end; each shows the end's call path with most waiting."""
    merged: dict[tuple[int, str, str, int, str], list[Chain]] = {}
    for c in holders.chains:
        merged.setdefault((c.row, c.second, c.last, c.length, c.root_state), []).append(c)
    body = []
    for chain in sorted(merged.values(), key=lambda same: -sum(c.ns for c in same))[:TOP_CHAINS]:
        c, total = chain[0], sum(c.ns for c in chain)
        row = waits.rows[c.row]
        between = f" -> {c.second}" if c.length > 2 and c.second != c.last else ""
        more = f" -> ({c.length - 3} more)" if c.length > 3 else ""
        state = lock_holders.STATE_NAMES.get(c.root_state, c.root_state)
        body.append(
            (units.ns(total), f"{row.type} {name(row)}{between}{more} -> {c.last}; its holder: {state}")
        )
        mostly = f"in {units.percent(c.ns / total)} %: " if len(chain) > 1 else ""
        body.append(("", f"  {mostly}{c.root_path}"))
    if body:
        heads = ("waited", "<chain: lock -> lock that its holder waits for -> .. -> last lock")
        section.tables.append(Table(heads, body))


def _ran(section: Section, tables: Tables, results: Results) -> None:
    """Where holders ran, by CPU samples."""
    samples = results.locks.samples
    if samples is None or not samples.holds:
        return
    body = []
    merged: dict[tuple[str, str], list[float]] = {}
    for h in samples.holds:
        label = lock_names.stack_label(h.stack_id, tables.stacks, 4, all_frames=True)
        sums = merged.setdefault((h.name, label), [0.0, 0.0])
        sums[0] += h.seen.samples
        sums[1] += h.seen.ns
    for (lock, label), (count, ns) in sorted(merged.items(), key=lambda item: -item[1][1])[:TOP_RAN]:
        seen = lock_samples.estimate(round(count), ns)
        body.append((ESTIMATED + units.ns(ns), interval(seen), lock))
        body.append(("", "", f"  {label}"))
    section.tables.append(Table(("ran", "95 % interval", "<lock held, and where the holder ran"), body))
    section.notes.append(
        f"where the holder ran: {units.ns(samples.holding.ns)} of CPU time, from"
        f" {samples.holding.samples:,} samples of tasks that held a lock with waiters"
    )


SECTIONS = (
    SectionSpec(
        "lock_holders_by_stack",
        "Lock holders by stack",
        2300,
        build_holders_by_stack,
        collectors=("locks",),
        explains=(LOCKS,),
    ),
)
