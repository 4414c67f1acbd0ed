# SPDX-License-Identifier: BSD-2-Clause
"""Which run of each subject an IO graph shows: the one whose headline figure is the median."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.measures.study.published import TableSpec
from analysis.rundir.sweep_dir import Sweep

MOST = 6  # runs a picture


@dataclass(frozen=True)
class ShownRun:
    """One run of the picture. of: runs from which it was chosen."""

    subject: str
    task: str
    path: Path
    value: float
    unit: str
    of: int
    virtual: bool  # run in a virtual machine


def shown_runs(spec: TableSpec, sweep: Sweep, figures: pd.DataFrame, machine: str) -> list[ShownRun]:
    """One run a subject, of its first traced configuration that has runs; at most MOST."""
    shown: dict[str, ShownRun] = {}
    frame = figures[
        (figures["machine"] == machine) & ~figures["anchor"].astype(bool) & figures["headline"].astype(bool)
    ]
    paths = {task.task: task.path for task in sweep.tasks if task.outcome == "done"}
    for one in sweep.configurations:
        words = {**one.words, **one.axes}
        if one.part != spec.part or not one.traced or one.subject in shown:
            continue
        if any(words.get(key) != word for key, word in spec.where.items()):
            continue
        runs = frame[(frame["configuration"] == one.id) & frame["task"].isin(list(paths))]
        runs = runs.drop_duplicates("task").sort_values(["value", "task"], kind="stable")
        if len(runs):
            median = runs.iloc[(len(runs) - 1) // 2]
            task = str(median["task"])
            shown[one.subject] = ShownRun(
                one.subject,
                task,
                paths[task],
                float(median["value"]),
                str(median["unit"]),
                len(runs),
                one.virtual or bool(median["virtual"]),
            )
    return list(shown.values())[:MOST]
