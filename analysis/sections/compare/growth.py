# SPDX-License-Identifier: BSD-2-Clause
"""Growth with threads: lock waits and throughput by number of threads, and the exponent of their growth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis import units
from analysis.measures.compare.compared_locks import (
    Locks,
    Sums,
    alike,
    of_workload,
    operations,
    per_operation_us,
    spin_share,
    top,
)
from analysis.measures.compare.compared_run import Compared
from analysis.measures.statistics import power_law
from analysis.render.document import Section, Table
from analysis.sections.compare.facts import facts
from analysis.sections.compare.locks import (
    LEAST_NAME,
    NO_LOCKS,
    OWN,
    all_locks,
    marked_names,
    microseconds,
    of_lock,
    recorded,
    shown_name,
    without_locks,
)
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import LITTLE

TOP = 3  # locks of each run that have lines of their own
LEAST_OF_ALL = 0.01  # and make up so much of the waiting of the run with most of it
# what must be the same for runs to be points of one line
SAME = (
    "file system", "option set", "workload", "scale", "kernel", "machine", "CPUs", "memory", "CPU limit",
    "memory limit", "disk", "journal", "scheduler", "mkfs", "mount",
)  # fmt: skip


def threads(one: Compared) -> int | None:
    """Threads of the workload, None if run.json does not say."""
    number = one.run.int_("workload", "threads")
    return number if number and number > 0 else None


def lines(runs: Runs) -> list[list[Compared]]:
    """Runs that differ in their threads and in nothing else that matters, each group by threads."""
    groups: dict[tuple[str, ...], list[Compared]] = {}
    for one in runs:
        if threads(one) is not None:
            known = facts(one.run)
            key = (*(known.get(name, "") for name in SAME), one.run.text("words", "CMD"))
            groups.setdefault(key, []).append(one)
    by_threads = [sorted(group, key=lambda one: threads(one) or 0) for group in groups.values()]
    return [group for group in by_threads if len({threads(one) for one in group}) > 1]


def _cells(group: Runs, values: Sequence[float | None], show: Callable[[float], str]) -> list[str]:
    """The values, and how they grow."""
    shown = ["-" if value is None else show(value) for value in values]
    fit = power_law.fit([float(threads(one) or 0) for one in group], values)
    if fit is None:
        return [*shown, "-", "-", "-"]
    slope = "two points"
    if fit.half_width is not None:
        slope = f"{fit.b:.2f} +-{units.figures(fit.half_width, 2)}"
    return [*shown, units.figures(fit.per_doubling), slope, str(fit.points)]


def _table(group: Runs) -> Table:
    """One group: per lock its share and its waits an operation, then the throughput."""
    by_run = [of_workload(one) for one in group]
    per_op = any(operations(one) is not None for one in group) and len(alike(group)) == 1

    def over(
        get: Callable[[Sums, Compared], float | None], pick: Callable[[Locks], Sums]
    ) -> list[float | None]:
        of = zip(group, by_run, strict=True)
        return [None if locks is None else get(pick(locks), one) for one, locks in of]

    def spin(sums: Sums, one: Compared) -> float | None:
        return spin_share(sums.spin_ns, one)

    def sleep(sums: Sums, one: Compared) -> float | None:
        if per_op:
            return per_operation_us(sums.sleep_ns, one)
        return sums.sleep_ns / 1e9 / one.results.window.elapsed_s

    def wait(sums: Sums, one: Compared) -> float | None:
        if per_op:
            return per_operation_us(sums.total_ns, one)
        return sums.total_ns / 1e9 / one.results.window.elapsed_s

    unit = "us/op" if per_op else "s/s"
    figures = (
        (spin, "spin %", units.percent),
        (sleep, f"sleep {unit}", microseconds),
        (wait, f"wait {unit}", microseconds),
    )
    waits = [
        {k: wait(v, one) or 0.0 for k, v in (f or {}).items()} for one, f in zip(group, by_run, strict=True)
    ]
    shown = top(waits, TOP, LEAST_OF_ALL * max(sum(of.values()) for of in waits))
    picks = [(" ".join(shown_name(lock, by_run)), of_lock(lock)) for lock in shown]
    picks.append(("all locks", all_locks))
    rows = []
    for name, pick in picks:
        first = True
        for get, what, show in figures:
            values = over(get, pick)
            if any(values):
                rows.append([name if first else "", what, *_cells(group, values, show)])
                first = False
    if per_op:
        done = [operations(one) for one in group]
        rate = [None if ops is None else ops.per_s for ops in done]
        rows.append(["throughput", "ops/s", *_cells(group, rate, units.rate)])
    heads = [f"{one.letter}\n{threads(one)} thr{LITTLE if one.emulated else ''}" for one in group]
    return Table(["<lock", "<", *heads, "x2", "&exponent", "&n"], rows, LEAST_NAME)


def build_growth(runs: Runs, tags: Tags) -> list[Section]:
    """Per file system and workload: each lock's figures by number of threads, and how they grow."""
    section = Section()
    if not recorded(runs):
        section.absent = NO_LOCKS
        return [section]
    groups = lines([one for one, _ in recorded(runs)])
    if not groups:
        section.absent = "no two runs with lock data differ in the number of threads alone"
        return [section]
    for group in groups:
        section.tables.append(_table(group))
        who = ", ".join(one.letter for one in group)
        known = facts(group[0].run)
        subject = " ".join(known[name] for name in ("file system", "option set", "workload") if known[name])
        kinds = alike(group)
        unit = f", per {kinds[0][0].unit}" if len(kinds) == 1 else ", operations not alike"
        section.notes.append(f"{who}: {subject}{unit}")
    inside = {one.letter for group in groups for one in group}
    grouped = [one for group in groups for one in group]
    crowded = [one.letter for one in grouped if one.run.cpus and (threads(one) or 0) > one.run.cpus]
    if crowded:
        section.notes.append(
            f"{', '.join(crowded)}: more threads than CPUs: at most as many threads as CPUs spin at a time,"
            " the other threads sleep or wait to run"
        )
    left = [one.letter for one, _ in recorded(runs) if one.letter not in inside]
    if left:
        section.notes.append(f"{', '.join(left)}: no other run differs from it in threads alone")
    section.notes += [*without_locks(runs), *marked_names(grouped)]
    section.definition = (
        f"wait: spinning and sleeping; spin %: of all CPU time. {OWN} x2: factor on the number per"
        " doubling of the threads;"
        " exponent: number ~ threads^exponent, least squares in logarithms over n values above 0, +- its 95 %"
        " interval (x2 is 2^exponent). Two points are no trend. Throughput that scales has x2 = 2."
    )
    return [section]


SECTIONS = (CompareSpec("growth", "Growth with threads", 1100, build_growth, collectors=("locks", "calls")),)
