# SPDX-License-Identifier: BSD-2-Clause
"""Sections on call paths: who waits, who holds and what holders were doing, who waits for whom."""

from __future__ import annotations

from analysis import units
from analysis.measures.locks import lock_holders, lock_names, lock_samples, waits_by_stack
from analysis.measures.locks.lock_holders import Chain, Edge, Holders
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, clean
from analysis.sections import about
from analysis.sections.lock_labels import ESTIMATED, TOP, interval, name, sampled_share
from analysis.tables.load import Tables

TOP_PATHS = 3  # of each of the top locks
TOP_OF_PATHS = 5
TOP_HOLDERS = 8
TOP_CHAINS = 6
TOP_RAN = 6
TOP_EDGES = 6


def paths_section(run: Run, tables: Tables, results: Results) -> Section:
    """From where the top locks were waited on."""
    section = Section("Who waits: call paths", mark=about.mark(run, "locks"))
    found = results.locks.waits
    if found is None or not found.rows:
        section.absent = run.absent("locks") if found is None else "no lock was waited on"
        return section
    total = found.total_ns
    paths = found.paths
    few = waits_by_stack.group([found.row_of_path, paths.stack_id])
    spin, sleep = few.sums(paths.spin_ns), few.sums(paths.sleep_ns)
    by_row: dict[int, dict[str, list[float]]] = {}
    for g, first in enumerate(few.first.tolist()):
        row = int(found.row_of_path[first])
        if row < TOP_OF_PATHS:
            label = lock_names.stack_label(int(paths.stack_id[first]), tables.stacks, 6)
            sums = by_row.setdefault(row, {}).setdefault(label, [0.0, 0.0])
            sums[0] += spin[g]
            sums[1] += sleep[g]
    body = []
    for row, labels in sorted(by_row.items()):
        r = found.rows[row]
        about_ = ESTIMATED if r.sampled_share < 1 else ""
        share = f", {units.percent(r.sampled_share)} % sampled" if r.sampled_share < 1 else ""
        body.append(_path_row("", r.spin_ns, r.sleep_ns, total, f"{r.type} {name(r)}{share}"))
        order = sorted(labels.items(), key=lambda item: (-sum(item[1]), item[0]))
        for label, (a, b) in order[:TOP_PATHS]:
            body.append(_path_row(about_, a, b, total, f"  {label}"))
        if len(order) > TOP_PATHS:
            a, b = (sum(s[k] for _, s in order[TOP_PATHS:]) for k in (0, 1))
            body.append(_path_row(about_, a, b, total, f"  {len(order) - TOP_PATHS} more"))
    section.tables.append(Table(("spin", "sleep", "share %", "<lock and who waits, innermost first"), body))
    section.definition = (
        "share: of all waiting. ..: functions left out. All paths: lock_waiting.svg, waiting.folded."
        + (f" {ESTIMATED}: scaled from the sampled call paths." if sampled_share(results) < 1 else "")
    )
    return section


def _path_row(mark: str, spin: float, sleep: float, total: float, words: str) -> tuple[str, ...]:
    share = units.percent((spin + sleep) / total if total else None)
    return (mark + units.ns(spin), mark + units.ns(sleep), mark + share, words)


def holders_section(run: Run, tables: Tables, results: Results) -> Section:
    """What the holders were doing, and where."""
    section = Section("Who holds: what holders were doing", mark=about.mark(run, "locks"))
    found, holders = results.locks.waits, results.locks.holders
    if found is None or holders is None:
        section.absent = run.absent("locks")
        return section
    if not holders.known_ns:
        section.absent = "no wait on a mutex or rwsem whose holder was looked at was recorded"
        return section
    shown = [s for j, s in enumerate(lock_holders.STATES) if holders.state_ns[:, j].any()]
    body = []
    for i, r in enumerate(found.rows):
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
    _holder_stacks(section, found, holders)
    _chains(section, found, holders)
    _ran(section, tables, results)
    section.definition = lock_holders.DEFINITION
    return section


def _holder_stacks(section: Section, found: LockWaits, holders: Holders) -> None:
    body = []
    total = found.total_ns
    for h in holders.holders[:TOP_HOLDERS]:
        row = found.rows[h.row]
        state = lock_holders.STATE_WORDS[h.state]
        body.append(
            (units.ns(h.ns), units.percent(h.ns / total), f"{row.type} {name(row)}: {_comm(h.comm)}, {state}")
        )
        body.append(("", "", f"  {h.path}"))
    if body:
        section.tables.append(Table(("waited", "share %", "<lock: holder, and its call path"), body))


def _comm(comm: str) -> str:
    return clean(comm, 30) or "a task"


def _chains(section: Section, found: LockWaits, holders: Holders) -> None:
    """Chains of the same locks and end as one, with the call path at the end that was waited for longest."""
    merged: dict[tuple[int, str, str, int, str], list[Chain]] = {}
    for c in holders.chains:
        merged.setdefault((c.row, c.second, c.last, c.length, c.root_state), []).append(c)
    body = []
    for chain in sorted(merged.values(), key=lambda same: -sum(c.ns for c in same))[:TOP_CHAINS]:
        c, total = chain[0], sum(c.ns for c in chain)
        row = found.rows[c.row]
        between = f" -> {c.second}" if c.length > 2 and c.second != c.last else ""
        more = f" -> ({c.length - 3} more)" if c.length > 3 else ""
        state = lock_holders.STATE_WORDS.get(c.root_state, c.root_state)
        body.append(
            (units.ns(total), f"{row.type} {name(row)}{between}{more} -> {c.last}; its holder: {state}")
        )
        mostly = f"in {units.percent(c.ns / total)} %: " if len(chain) > 1 else ""
        body.append(("", f"  {mostly}{c.root_path}"))
    if body:
        heads = ("waited", "<chain: a lock -> the lock its holder waits for -> to the end")
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
        f"where the holder ran: {units.ns(samples.holding.ns)} of CPU time by"
        f" {samples.holding.samples:,} samples of tasks that ran while others waited for their lock"
    )


def holder_words(edge: Edge) -> str:
    """Who held the lock, and what it was doing."""
    if edge.state == "readers":
        return "readers"
    doing = f"waiting for {edge.wants}" if edge.wants else lock_holders.STATE_WORDS[edge.state]
    return f"{_comm(edge.comm)} ({doing})"


def blocking_section(run: Run, results: Results) -> Section:
    """Who waits for whom."""
    section = Section("Who waits for whom", mark=about.mark(run, "locks"))
    found, holders = results.locks.waits, results.locks.holders
    if found is None or holders is None or not holders.edges:
        section.absent = run.absent("locks") if found is None else "no holder was seen"
        return section
    total = found.total_ns
    body = []
    for e in holders.edges[:TOP_EDGES]:
        row = found.rows[e.row]
        mark = ESTIMATED if row.sampled_share < 1 else ""
        body.append((mark + units.ns(e.ns), units.percent(e.ns / total), f"{row.type} {name(row)}"))
        body.append(("", "", f"  wanted by  {e.waiter}"))
        who = holder_words(e)
        body.append(("", "", f"  held by    {who}{': ' + e.holder if e.holder else ''}"))
    section.tables.append(Table(("waited", "share %", "<lock, who wanted it, who held it"), body))
    shown = sum(e.ns for e in holders.edges[:TOP_EDGES])
    known = sum(e.ns for e in holders.edges)
    section.notes.append(
        f"shown: {units.percent(shown / total)} % of all waiting; holders were seen for"
        f" {units.percent(known / total)} %"
    )
    section.definition = (
        "an edge of the blocking graph: waits of one call path on one class of locks, held by a task in one"
        " call path when the wait began, weighed by the time waited. Spinlocks, rwlocks and semaphores don't"
        " remember who holds them. Drawn: lock_blocking.svg."
    )
    return section
