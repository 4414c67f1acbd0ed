# SPDX-License-Identifier: BSD-2-Clause
"""What this machine or kernel cannot show of a study: refused, absent, options left out, runs that failed."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.measures.study.published import Published
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section, Table
from analysis.rundir.sweep_dir import Refused

MOST = 60


def missing_rows(results: StudyResults) -> list[tuple[str, str]]:
    """What is not there, and why, each once."""
    sweep = results.sweep
    rows: dict[tuple[str, str], None] = {}
    refused: dict[str, list[Refused]] = {}
    for one in sweep.refused:
        refused.setdefault(one.why, []).append(one)
    for why, of in refused.items():
        rows[_what(of), why] = None
    for absent in sweep.absent:
        rows[absent.what, absent.why] = None
    for configuration in sweep.configurations:
        for option, why in configuration.left_out.items():
            rows[f"{configuration.subject}: {option}", why] = None
    for name, figures in unused_published(results).items():
        remarks = list(dict.fromkeys(figure.note for figure in figures if figure.note))
        count = f"{len(figures)} published figure{'s' if len(figures) > 1 else ''} of {name}"
        rows[count, "no table of this study has them" + "".join(f"; {one}" for one in remarks[:2])] = None
    failed: dict[str, str] = {}
    for task in sweep.tasks:
        if task.outcome in ("failed", "interrupted", "unreadable") and task.configuration is not None:
            failed.setdefault(
                task.configuration.label, f"{task.outcome}: {task.why}" if task.why else task.outcome
            )
    for label, why in failed.items():
        rows[f"a run of {label}", why] = None
    return list(rows)


def _what(refused: Sequence[Refused]) -> str:
    """The subjects of refused combinations; with its words if it is a single one."""
    subjects = ", ".join(dict.fromkeys(one.subject for one in refused))
    if len(refused) == 1:
        words = [f"{key}={word}" for key, word in refused[0].axes.items() if word and key != "FS"]
        return " ".join([subjects, *words])
    return f"{subjects}: {len(refused)} combinations"


def unused_published(results: StudyResults) -> dict[str, list[Published]]:
    """Published tables that no table of the study shows."""
    shown = {table.spec.published for table in results.tables}
    return {name: list(of.values()) for name, of in results.study.published.items() if name not in shown}


def build_missing(results: StudyResults) -> Section:
    """The list; what is not measured stays in its table as such."""
    section = Section(title="What this machine cannot show")
    rows = missing_rows(results)
    if not rows:
        section.notes.append("nothing: every part of the study ran, or is still to run")
        return section
    section.tables.append(Table(["<what", "<why"], [list(row) for row in rows[:MOST]], least_left=24))
    if len(rows) > MOST:
        section.notes.append(f"and {len(rows) - MOST} more, see sweep.json")
    return section
