# SPDX-License-Identifier: BSD-2-Clause
"""Locks of several runs: spin share by lock (Bryant 2002, table 1), and sleeping per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analysis import units
from analysis.measures.compare.compared_locks import (
    NONE,
    Lock,
    Locks,
    Operations,
    Sums,
    add,
    alike,
    by_class,
    has_workload,
    of_workload,
    operations,
    per_operation_us,
    spin_share,
    top,
)
from analysis.measures.compare.compared_run import Compared
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import Row, Value, make_table
from analysis.sections.lock_labels import BY_PATH, ESTIMATED

Every = Sequence[Locks | None]
Measure = Callable[[Sums, Compared], float | None]
TOP = 5  # locks of each run that have a line of their own
LEAST_SPIN = 0.001  # of all CPU time
LEAST_OF_ALL = 0.001  # of the sleeping of the run with most of it
LEAST_NAME = 24  # characters of a lock's name on a line, at least
NO_LOCKS = "no run recorded locks"
NO_SPINLOCKS = "virt"  # spinlock_mode of a guest whose spinlocks show no wait
OWN = "Counted: the workload's own tasks (all tasks, where a live system was watched)."


def microseconds(value: float) -> str:
    """Three figures down to a nanosecond."""
    return "<0.001" if 0 < value < 0.001 else units.figures(value)


def recorded(runs: Runs) -> list[tuple[Compared, Locks]]:
    """The runs with lock data, and their sums by class."""
    return [(one, locks) for one in runs if (locks := by_class(one)) is not None]


def without_locks(runs: Runs) -> list[str]:
    """Why runs have no lock data, a sentence each."""
    why = [(one, one.run.absent("locks")) for one in runs if by_class(one) is None]
    return [f"{one.letter}: no lock data: {reason}" for one, reason in why]


def of_lock(lock: Lock) -> Callable[[Locks], Sums]:
    """Picks this lock's sums out of a run's."""
    return lambda locks: locks.get(lock, NONE)


def all_locks(locks: Locks) -> Sums:
    """All of a run's locks together."""
    return add(locks.values())


def shown_name(lock: Lock, by_run: Every) -> Lock:
    """The lock, its name marked if in some run it is estimated or comes from the call path."""
    kind, name = lock
    sums = add(locks.get(lock, NONE) for locks in by_run if locks is not None)
    return kind, (ESTIMATED if sums.is_estimate else "") + name + (BY_PATH if sums.is_by_path else "")


def marked_names(runs: Runs) -> list[str]:
    """What the marks on names mean, as far as there are any."""
    sums = add(sums for _, locks in recorded(runs) for sums in locks.values())
    notes = []
    if sums.is_by_path:
        notes.append(f"names marked{BY_PATH} come from the call path")
    if sums.is_estimate:
        notes.append(
            f"locks marked {ESTIMATED} are named by their caller: estimated from the waits whose call path"
            " was recorded"
        )
    return notes


def lock_rows(
    runs: Runs, by_run: Every, measure: Measure, show: Callable[[float], str], least: float | None = None
) -> list[Row]:
    """A row a lock that is among the highest of any run, the rest in one, and all of them.

    least: what a lock must reach to have a row; None: LEAST_OF_ALL of the highest run's sum.
    """
    values: list[Mapping[Lock, float]] = []
    for one, locks_of_run in zip(runs, by_run, strict=True):
        values.append({lock: measure(sums, one) or 0.0 for lock, sums in (locks_of_run or {}).items()})
    if least is None:
        least = LEAST_OF_ALL * max((sum(of.values()) for of in values), default=0.0)
    shown = top(values, TOP, least)
    others = {lock for of in values for lock in of if of[lock] > 0} - set(shown)

    def rest(locks: Locks) -> Sums:
        return add(sums for lock, sums in locks.items() if lock in others)

    def row(names: tuple[str, str], pick: Callable[[Locks], Sums]) -> Row:
        return Row(names, _over(runs, by_run, measure, pick), show, ratio=False)

    rows = [row(shown_name(lock, by_run), of_lock(lock)) for lock in shown]
    if others:
        rows.append(row(("", f"{len(others):,} other lock{'s' if len(others) > 1 else ''}"), rest))
    return [*rows, row(("", "all locks"), all_locks)]


def _over(
    runs: Runs, by_run: Every, measure: Measure, pick: Callable[[Locks], Sums] = all_locks
) -> list[Value]:
    pairs = zip(runs, by_run, strict=True)
    return [None if locks is None else measure(pick(locks), one) for one, locks in pairs]


def _spin(sums: Sums, one: Compared) -> float | None:
    return spin_share(sums.spin_ns, one)


def _sleep(sums: Sums, one: Compared) -> float | None:
    return per_operation_us(sums.sleep_ns, one)


def _sampling_off(one: Compared) -> str:
    """Why CPUs were not sampled, as the recorder says; empty if it says nothing."""
    notes = one.run.losses["locks"].notes if "locks" in one.run.losses else {}
    return next((note for note in notes if note.startswith("CPU sampling is off")), "")


def _unseen(runs: Runs) -> tuple[list[Row], list[str]]:
    """The line of what the tracepoints don't show, by CPU samples, and notes on them."""
    unseen: list[Value] = []
    notes = []
    without: dict[str, list[str]] = {}  # letters by the reason
    for one in runs:
        samples = one.results.locks.samples
        if samples is None or by_class(one) is None or _sampling_off(one):
            unseen.append(None)
            without.setdefault(_sampling_off(one) or "no CPU samples", []).append(one.letter)
            continue
        estimate = samples.unseen
        unseen.append(spin_share(estimate.ns, one))
        note = f"{one.letter}: unseen: {estimate.samples:,} samples"
        if estimate.samples:
            low, high = (units.percent(spin_share(ns, one)) for ns in (estimate.low_ns, estimate.high_ns))
            note += f", 95 % interval {low}..{high} %"
        if samples.spins:
            most = samples.spins[0]
            note += f", most in {most.type} {most.name} ({units.percent(spin_share(most.seen.ns, one))} %)"
        notes.append(note)
    for why, letters in without.items():
        notes.append(f"{', '.join(letters)}: spinning that no tracepoint shows is not estimated: {why}")
    if all(value is None for value in unseen):
        return [], notes
    return [Row(("", "unseen, by samples: at least"), unseen, units.percent, ratio=False)], notes


def build_spin_share(runs: Runs, tags: Tags) -> list[Section]:
    """Share of all CPU time spent spinning, a row a lock, a column a run (Bryant 2002, table 1)."""
    section = Section()
    if not recorded(runs):
        section.absent = NO_LOCKS
        return [section]
    rows = lock_rows(runs, [by_class(one) for one in runs], _spin, units.percent, LEAST_SPIN)
    own = _over(runs, [of_workload(one) if has_workload(one) else None for one in runs], _spin)
    rows.append(Row(("", "of this by the workload's tasks"), own, units.percent, ratio=False))
    unseen, notes = _unseen(runs)
    heads = ("kind", "lock, % of CPU time")
    section.tables.append(
        make_table(heads, runs, tags.stacked, [*rows, *unseen], True, ("locks",), LEAST_NAME)
    )
    section.notes += without_locks(runs)
    without = [one.letter for one, _ in recorded(runs) if not one.run.cpus]
    if without:
        section.notes.append(f"{', '.join(without)}: run.json lacks the number of CPUs: no share of CPU time")
    blind = [one.letter for one in runs if one.run.text("kernel", "spinlock_mode") == NO_SPINLOCKS]
    if blind:
        section.notes.append(f"{', '.join(blind)}: this guest's spinlocks show no waits: its rows lack them")
    section.notes += [*notes, *marked_names(runs)]
    section.definition = (
        "spin share: time spinning / (CPUs x recorded time), in percent (Bryant 2002, table 1), of waits"
        f" that the lock tracepoints show, all tasks and interrupts. Row: a class of locks, the {TOP}"
        " highest of each run. unseen: CPU samples in spinning functions outside of such waits x the time"
        " between samples; in no other row."
    )
    return [section]


def operations_note(done: Operations, group: Runs) -> str:
    """The unit of an operation in these runs."""
    return f"{', '.join(one.letter for one in group)}: per {done.unit}"


def build_sleeping(runs: Runs, tags: Tags) -> list[Section]:
    """Microseconds asleep on a lock per operation, a row a lock, a column a run."""
    section = Section()
    if not recorded(runs):
        section.absent = NO_LOCKS
        return [section]
    known = {one.letter: tag for one, tag in zip(runs, tags.short, strict=True)}
    groups = alike(runs)
    for done, group in groups:
        by_run = [of_workload(one) for one in group]
        rows = lock_rows(group, by_run, _sleep, microseconds)
        others = []
        for one, mine in zip(group, by_run, strict=True):
            left = all_locks(by_class(one) or {}).sleep_ns - all_locks(mine or {}).sleep_ns
            others.append(per_operation_us(left, one))
        rows.append(Row(("", "other tasks, all locks"), others, microseconds, ratio=False))
        named = [known[one.letter] for one in group]
        collectors = ("locks", "calls") if done.by_calls else ("locks",)
        heads = ("kind", "lock, us/operation")
        section.tables.append(make_table(heads, group, named, rows, True, collectors, LEAST_NAME))
        section.notes.append(operations_note(done, group))
    if len(groups) > 1:
        section.notes.append("operations of different kinds are not alike: compare within one table only")
    section.notes += without_locks(runs)
    section.notes += [
        f"{one.letter}: operations not known: the workload marks none and no calls were recorded"
        for one, _ in recorded(runs)
        if operations(one) is None
    ]
    section.notes += marked_names(runs)
    section.definition = (
        f"us/operation: time asleep on locks of the class / operations, over the whole recording. {OWN}"
        " other tasks: the kernel's threads and other programs, over the same operations."
    )
    return [section]


SECTIONS = (
    CompareSpec(
        "spin_share", "Spin share by lock", 900, build_spin_share, essential=True, collectors=("locks",)
    ),
    CompareSpec(
        "sleeping", "Sleeping per operation by lock", 1000, build_sleeping, collectors=("locks", "calls")
    ),
)
