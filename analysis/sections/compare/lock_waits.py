# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits of several runs by kind of lock, spinning and sleeping apart."""

from __future__ import annotations

from collections.abc import Callable

from analysis import units
from analysis.measures.compare.compared_run import Compared
from analysis.measures.locks import lock_waits
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import Row, Value, integer, make_table, union


def build_lock_waits(runs: Runs, tags: Tags) -> list[Section]:
    """Waits by kind of lock, spinning and sleeping apart."""
    section = Section()
    by_run = [lock_waits.by_kind(one.results.locks.rows) for one in runs]
    if all(kinds is None for kinds in by_run):
        section.absent = "no run recorded locks"
        return [section]
    counted, timed = [], []
    for kind in union([list(kinds or {}) for kinds in by_run]):

        def over(get: Callable[[lock_waits.KindSum], float], kind: str = kind) -> list[Value]:
            return [
                None if kinds is None else get(kinds.get(kind, lock_waits.KindSum(0, 0, 0)))
                for kinds in by_run
            ]

        counted.append(Row((kind,), over(lambda s: s.waits), integer))
        timed.append(Row((kind, "spin"), over(lambda s: s.spin_ns), units.ns))
        timed.append(Row((kind, "sleep"), over(lambda s: s.sleep_ns), units.ns))
    share: list[Value] = [_spin_share(one) for one in runs]
    timed.append(Row(("spin share, %", ""), share, units.percent, ratio=False))
    if counted:
        section.tables.append(make_table(("waits on",), runs, tags.short, counted, False, ("locks",)))
    section.tables.append(make_table(("time in", ""), runs, tags.short, timed, True, ("locks",)))
    section.definition = (
        "wait: from contention begin to contention end, split into spinning and sleeping. Spin share: time"
        " spinning / (CPUs x elapsed)."
    )
    return [section]


def _spin_share(one: Compared) -> float | None:
    rows, cpus = one.results.locks.rows, one.run.cpus
    if rows is None or not cpus:
        return None
    return sum(row.spin_ns for row in rows) / 1e9 / one.results.window.elapsed_s / cpus


SECTIONS = (CompareSpec("lock_waits", "Lock waits", 800, build_lock_waits, collectors=("locks",)),)
