# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits: the classes of locks waited on longest, whose waits they are, and what no tracepoint shows."""

from __future__ import annotations

from analysis import front, units
from analysis.measures.locks import lock_waiters, lock_waits
from analysis.measures.locks.lock_waits import LockRow
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, clean
from analysis.sections.lock_labels import BY_PATH, ESTIMATED, TOP, approx, name, sampled_share
from analysis.sections.spec import LOCKS, SectionSpec
from analysis.tables.load import Tables

TOP_NAMES = 3
# The recorder's note in losses.json: above 0 on a kernel that reports every writer of a percpu rwsem.
UNTRIED_WRITERS = "percpu rwsem writers reported before they try"


def invisible(run: Run) -> list[str]:
    """Sentences on the kinds of waits that this kernel does not show."""
    mode = run.text("kernel", "spinlock_mode")
    kinds = []
    if mode == "virt":
        kinds.append("spinlocks at all (this guest spins by test-and-set, which has no tracepoint)")
    elif mode == "native":
        kinds.append("a spinlock's next waiter in line (it spins on the lock's pending bit)")
    elif mode == "unknown":
        kinds.append(
            "a spinlock's next waiter in line, if this kernel's spinlocks are native or test-and-set"
        )
    kinds += [
        "rwsem writers that acquire while spinning",
        "readers of rwlocks in interrupts",
        "bit spinlocks and lockref retries",
        "folio, page and buffer locks",
        "waits for journal or log space",
    ]
    notes = [f"no tracepoint shows: {'; '.join(kinds)}. CPU samples show only those that spin"]
    if run.text("kernel", "config", "CONFIG_DEBUG_LOCK_ALLOC") == "y":
        notes.append("CONFIG_DEBUG_LOCK_ALLOC: this kernel reports every mutex taken, contended or not")
    return notes


def percpu_writers(run: Run, rows: list[LockRow]) -> list[str]:
    """Whether waits of percpu rwsem writers are waits: some kernels report every writer."""
    notes = run.losses["locks"].notes if "locks" in run.losses else {}
    if notes.get(UNTRIED_WRITERS):
        return ["this kernel reports every writer of a percpu rwsem, contended or not"]
    if UNTRIED_WRITERS not in notes and any(row.type == "pcpu-sem:W" for row in rows):
        return [
            "pcpu-sem:W: some kernels report every writer, contended or not; whether this one does was not"
            " recorded (an older run)"
        ]
    return []


def build_lock_waits(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a class of locks, longest wait first."""
    section = Section()
    rows = results.locks.rows
    if rows is None:
        section.absent = run.absent("locks")
        return [section]
    section.definition = lock_waits.DEFINITION
    if results.locks.waiters is not None and results.locks.waiters.is_known and not results.locks.shows_all:
        section.definition += f" {lock_waiters.DEFINITION}"
    if not rows:
        whose = "" if results.locks.shows_all else " by the workload's tasks or the file system's own threads"
        section.notes += [
            f"no lock was waited on{whose}, as far as this kernel can show",
            *_owner_notes(results),
        ]
        section.notes += invisible(run) + percpu_writers(run, rows)
        return [section]
    total, spin = sum(r.total_ns for r in rows), sum(r.spin_ns for r in rows)
    elapsed = results.window.elapsed_s
    section.tables.append(
        Table(
            ("<type", "<lock, or first caller", "n", "waits", "spin", "sleep", "max", "share %"),
            [
                (
                    r.type,
                    name(r),
                    units.count(r.locks),
                    approx(units.count(r.waits), r),
                    approx(units.ns(r.spin_ns), r),
                    approx(units.ns(r.sleep_ns), r),
                    units.ns(r.max_ns),
                    units.percent(r.total_ns / total if total else None),
                )
                for r in rows[:TOP]
            ],
        )
    )
    for i, r in enumerate(rows[:3]):
        if r.callers:
            section.notes.append(f"{i + 1}. {r.type} {name(r)} < {r.callers}")
    if len(rows) > TOP and total:
        rest = sum(r.total_ns for r in rows[TOP:])
        section.notes.append(f"{len(rows) - TOP} more locks, {units.percent(rest / total)} % of the wait")
    waits = sum(r.waits for r in rows)
    section.notes.append(
        f"total: {waits:,} waits, spinning {units.ns(spin)}, sleeping {units.ns(total - spin)} (on average"
        f" {units.figures((total - spin) / 1e9 / elapsed)} threads asleep)"
    )
    own_spin, own_sleep = (
        sum(r.workload_spin_ns for r in rows),
        sum(r.workload_sleep_ns for r in rows),
    )
    section.notes.append(
        f"of this by the workload's tasks: {sum(r.workload_waits for r in rows):,} waits, spinning"
        f" {units.ns(own_spin)}, sleeping {units.ns(own_sleep)}"
    )
    section.notes += _owner_notes(results)
    if run.cpus:
        share = lock_waits.spin_share(rows, run.cpus, elapsed)
        section.notes.append(
            f"spin share: {units.percent(share.machine)} % of {run.cpus} CPUs over"
            f" {units.seconds(elapsed)} s, by the workload's tasks {units.percent(share.workload)} %"
        )
    section.notes += _naming_notes(results, rows)
    failed = sum(r.failed for r in rows)
    if failed:
        section.notes.append(f"{failed:,} waits ended by a signal; they are counted")
    section.notes += invisible(run) + percpu_writers(run, rows)
    return [section]


def _owner_notes(results: Results) -> list[str]:
    """A sentence for each owner of waits: whether its waits are shown, and its threads."""
    waiters = results.locks.waiters
    if waiters is None:
        return []
    if not waiters.is_known:
        return ["the owners of the waits were not recorded (an older run): all tasks are counted"]
    notes = []
    for owner in waiters.owners:
        if owner.owner == lock_waiters.WORKLOAD:
            continue
        shown = owner.owner in lock_waiters.SHOWN or results.locks.shows_all
        notes.append(
            f"{'of this by' if shown else 'not shown:'} {lock_waiters.OWNER_NAMES[owner.owner]}:"
            f" {owner.waits:,}"
            f" waits, spinning {units.ns(owner.spin_ns)}, sleeping {units.ns(owner.sleep_ns)}{_names(owner)}"
        )
    if any(o.owner not in lock_waiters.SHOWN for o in waiters.owners) and not results.locks.shows_all:
        notes.append(f"the waits of all tasks: {front.command('report RUN=... LOCKS=all')}")
    return notes


def _names(owner: lock_waiters.OwnerWaits) -> str:
    """The threads or processes that waited longest."""
    if not owner.names:
        return ""
    shown = [f"{clean(name, 30)} {units.ns(ns)}" for name, ns in owner.names[:TOP_NAMES]]
    more = len(owner.names) - TOP_NAMES
    return f" ({', '.join(shown)}{f', {more:,} more' if more > 0 else ''})"


def _naming_notes(results: Results, rows: list[LockRow]) -> list[str]:
    notes = []
    unnamed = lock_waits.unnamed_share(rows)
    if unnamed:
        notes.append(f"{units.percent(unnamed)} % of the wait is on locks named by their caller")
    guessed = sum(r.total_ns for r in rows if r.named_by == "call path")
    if guessed:
        share = units.percent(guessed / sum(r.total_ns for r in rows))
        notes.append(f"names marked{BY_PATH} come from the call path: {share} % of the wait")
    sampled = sampled_share(results)
    if sampled < 1:
        notes.append(
            "call paths were sampled at high rates: waits with"
            f" {units.percent(1 - sampled)} % of the waiting time have none; {ESTIMATED}: numbers by call"
            " path, and of locks named by their caller, are scaled from the recorded call paths"
        )
    return notes


SECTIONS = (
    SectionSpec(
        "lock_waits",
        "Lock waits",
        1900,
        build_lock_waits,
        essential=True,
        collectors=("locks",),
        explains=(LOCKS,),
    ),
)
