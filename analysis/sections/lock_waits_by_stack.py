# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits by stack: the call paths from which the top locks were waited on."""

from __future__ import annotations

from analysis import units
from analysis.measures.locks import lock_names, waits_by_stack
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.lock_labels import ESTIMATED, name, sampled_share
from analysis.sections.spec import LOCKS, SectionSpec
from analysis.tables.load import Tables

TOP_PATHS = 3  # of each of the top locks
TOP_OF_PATHS = 5


def build_waits_by_stack(run: Run, tables: Tables, results: Results) -> list[Section]:
    """The top locks, and below each the call paths with most waiting."""
    if not results.locks.rows:
        return []
    section = Section()
    waits = results.locks.waits
    if waits is None or not waits.rows:
        section.absent = run.absent("locks") if waits is None else "no lock was waited on"
        return [section]
    total = waits.total_ns
    paths = waits.paths
    few = waits_by_stack.group([waits.row_of_path, paths.stack_id])
    spin, sleep = few.sums(paths.spin_ns), few.sums(paths.sleep_ns)
    by_row: dict[int, dict[str, list[float]]] = {}
    for g, first in enumerate(few.first.tolist()):
        row = int(waits.row_of_path[first])
        if row < TOP_OF_PATHS:
            label = lock_names.stack_label(int(paths.stack_id[first]), tables.stacks, 6)
            sums = by_row.setdefault(row, {}).setdefault(label, [0.0, 0.0])
            sums[0] += spin[g]
            sums[1] += sleep[g]
    body = []
    for row, labels in sorted(by_row.items()):
        r = waits.rows[row]
        about_ = ESTIMATED if r.sampled_share < 1 else ""
        share = f", {units.percent(r.sampled_share)} % sampled" if r.sampled_share < 1 else ""
        body.append(_path_row("", r.spin_ns, r.sleep_ns, total, f"{r.type} {name(r)}{share}"))
        order = sorted(labels.items(), key=lambda item: (-sum(item[1]), item[0]))
        for label, (a, b) in order[:TOP_PATHS]:
            body.append(_path_row(about_, a, b, total, f"  {label}"))
        if len(order) > TOP_PATHS:
            a, b = (sum(s[k] for _, s in order[TOP_PATHS:]) for k in (0, 1))
            body.append(_path_row(about_, a, b, total, f"  {len(order) - TOP_PATHS} more"))
    section.tables.append(
        Table(("spin", "sleep", "share %", "<lock, call path of the waiter, innermost first"), body)
    )
    section.definition = (
        "share %: of all waiting time. ..: functions left out. All call paths: lock_waiting.svg,"
        " waiting.folded."
        + (f" {ESTIMATED}: scaled from the sampled call paths." if sampled_share(results) < 1 else "")
    )
    return [section]


def _path_row(mark: str, spin: float, sleep: float, total: float, label: str) -> tuple[str, ...]:
    share = units.percent((spin + sleep) / total if total else None)
    return (mark + units.ns(spin), mark + units.ns(sleep), mark + share, label)


SECTIONS = (
    SectionSpec(
        "lock_waits_by_stack",
        "Lock waits by stack",
        2200,
        build_waits_by_stack,
        collectors=("locks",),
        explains=(LOCKS,),
    ),
)
