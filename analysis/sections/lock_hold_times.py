# SPDX-License-Identifier: BSD-2-Clause
"""Lock hold times: Lockmeter's table of utilization, contention, holds and waits by class of locks."""

from __future__ import annotations

from analysis import units
from analysis.measures.locks import holds
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.lock_labels import TOP
from analysis.sections.spec import LOCKS, SectionSpec
from analysis.tables.load import Tables


def _percent(value: float | None) -> str:
    return "-" if value is None else units.percent(value / 100)


def _mean_max(mean: float | None, longest: int | None) -> str:
    return "-" if mean is None else f"{units.ns(mean)} ({units.ns(longest)})"


def build_hold_times(run: Run, tables: Tables, results: Results) -> list[Section]:
    """UTIL CON HOLD WAIT TOTAL NOWAIT SPIN REJECT by class of locks; none if holds were not asked for."""
    if tables.hold is None:
        is_missing = "holds" in run.asked and results.locks.rows is not None
        return [Section(absent=run.absent("holds"))] if is_missing else []
    section = Section()
    elapsed_ns = results.window.end_ns - results.window.start_ns
    rows = holds.lockmeter_rows(tables.hold, tables.lock_wait, tables.lock_names, elapsed_ns)
    taken = [row for row in rows if row.acquired is not None]
    numbers = ("n", "UTIL %", "CON %", "HOLD mean (max)", "WAIT mean (max)", "TOTAL")
    heads = ("<type", "<lock", *numbers, "NOWAIT %", "SPIN %", "REJECT %")
    body = [
        (
            row.type,
            row.name,
            units.count(row.locks),
            _percent(row.util_pct),
            _percent(row.con_pct),
            _mean_max(row.mean_hold_ns, row.max_hold_ns),
            _mean_max(row.mean_wait_ns, row.max_wait_ns),
            units.count(row.total),
            _percent(row.nowait_pct),
            _percent(row.spin_pct),
            _percent(row.reject_pct),
        )
        for row in taken[:TOP]
    ]
    if body:
        section.tables.append(Table(heads, body))
    else:
        section.notes.append("no lock of the traced kinds was taken")
    if len(taken) > TOP:
        section.notes.append(f"{len(taken) - TOP:,} more classes with less time held")
    why: dict[str, list[str]] = {}
    for row in rows:
        if row.acquired is None:
            why.setdefault(row.why, []).append(row.type)
    for why_not, types in why.items():
        kinds = ", ".join(dict.fromkeys(types))
        section.notes.append(f"no hold times for {len(types):,} classes of {kinds} with waits: {why_not}")
    section.definition = holds.DEFINITION
    return [section]


SECTIONS = (
    SectionSpec(
        "lock_hold_times",
        "Lock hold times",
        2500,
        build_hold_times,
        collectors=("locks", "holds"),
        explains=(LOCKS,),
    ),
)
