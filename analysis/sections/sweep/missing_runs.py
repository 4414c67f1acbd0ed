# SPDX-License-Identifier: BSD-2-Clause
"""Runs without figures, with the reason: failed, interrupted, unreadable, refused, absent, not yet run."""

from __future__ import annotations

from analysis.measures.sweep.data import SweepData
from analysis.render.document import Section, Table
from analysis.rundir.sweep_dir import Task
from analysis.sections.sweep.spec import SweepSpec

MOST_ROWS = 40


def planned(data: SweepData) -> int:
    """Runs that were asked for, on all machines, without anchors; with a goal, at least so many."""
    machines = max(len(data.sweep.machines), len(data.machines), 1)
    return sum(one.reps for one in data.sweep.configurations) * machines


def build_missing_runs(data: SweepData) -> list[Section]:
    """Counts, then the runs, then what was refused."""
    sweep = data.sweep
    section = Section()
    started = [task for task in sweep.tasks if not task.is_anchor]
    counts = {"planned": planned(data), "done": len(data.done)}
    for outcome in ("failed", "interrupted", "running"):
        counts[outcome] = sum(task.outcome == outcome for task in started)
    counts["unreadable"] = len(data.unreadable) + sum(task.outcome == "unreadable" for task in started)
    counts["not started"] = max(counts["planned"] - len(started), 0)
    counts["made again"] = len(sweep.earlier)
    section.facts = [(name, f"{count:,}") for name, count in counts.items() if count or name == "done"]
    rows = [*_tasks(data), *(_row(task, "made again: " + task.outcome) for task in sweep.earlier)]
    if rows:
        section.tables.append(_table(("<run", "<configuration", "<what", "<why"), rows, section))
    if sweep.refused:
        refused = [[one.label or one.subject, one.kind, one.why] for one in sweep.refused]
        section.tables.append(_table(("<refused", "<by", "<why"), refused, section))
    if sweep.absent:
        section.tables.append(
            _table(("<absent", "<why"), [[one.what, one.why] for one in sweep.absent], section)
        )
    section.notes += sweep.missing
    return [section]


def _tasks(data: SweepData) -> list[list[str]]:
    """Runs that have no figures."""
    rows = []
    for task in data.sweep.tasks:
        if task.outcome != "done":
            rows.append(_row(task, task.outcome))
        elif task.task in data.unreadable:
            rows.append([task.task, _label(task), "unreadable", data.unreadable[task.task]])
    return rows


def _row(task: Task, what: str) -> list[str]:
    why = task.why or ("" if task.exit_code in (None, 0) else f"exit code {task.exit_code}")
    return [task.path.name, _label(task), what, why or "-"]


def _label(task: Task) -> str:
    return task.configuration.label if task.configuration else "anchor" if task.is_anchor else "-"


def _table(heads: tuple[str, ...], rows: list[list[str]], section: Section) -> Table:
    if len(rows) > MOST_ROWS:
        section.notes.append(f"{len(rows) - MOST_ROWS} more rows {heads[0][1:]} are not shown")
    return Table(heads, rows[:MOST_ROWS])


SECTIONS = (SweepSpec("missing_runs", "Missing runs", 800, build_missing_runs),)
