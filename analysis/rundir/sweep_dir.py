# SPDX-License-Identifier: BSD-2-Clause
"""Open a sweep directory: its plan (sweep_plan.py) and its runs (sweep_tasks.py).

A stranger may have made it, and it may be half done, killed or spoilt: missing runs are normal, and what
could not be read becomes a sentence in Sweep.missing, which the report prints. docs/SCHEMA.md lists the keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis import front
from analysis.errors import ReportError, TableError
from analysis.rundir.files import read_json_object
from analysis.rundir.folder import Folder, open_run_folder
from analysis.rundir.run import as_float, as_int, clean
from analysis.rundir.sweep_plan import (
    PLAN,
    items,
    read_absent,
    read_configurations,
    read_machines,
    read_parts,
    read_refused,
    text,
)
from analysis.rundir.sweep_plan import Absent as Absent  # re-exported, as the others below
from analysis.rundir.sweep_plan import Configuration as Configuration
from analysis.rundir.sweep_plan import Machine as Machine
from analysis.rundir.sweep_plan import Part as Part
from analysis.rundir.sweep_plan import Refused as Refused
from analysis.rundir.sweep_tasks import MARKER as MARKER
from analysis.rundir.sweep_tasks import RUNS as RUNS
from analysis.rundir.sweep_tasks import Task as Task
from analysis.rundir.sweep_tasks import read_tasks

SCHEMA = 1


@dataclass(frozen=True)
class Sweep:
    """One sweep directory. missing: sentences on what is broken, for the report."""

    path: Path
    facts: dict[str, Any]
    name: str
    command: str
    state: str  # running, complete, interrupted, or unknown
    tracing: str  # on, off, both
    order_seed: int | None
    reps: int
    goal_pct: float | None
    most_reps: int | None
    axes: tuple[str, ...]
    parts: tuple[Part, ...]
    configurations: tuple[Configuration, ...]
    refused: tuple[Refused, ...]
    absent: tuple[Absent, ...]
    machines: Mapping[str, Machine]
    study: dict[str, Any] | None  # name, scale, toml, published: see docs/SCHEMA.md
    tasks: tuple[Task, ...]  # the last attempt of each started run, by machine and order
    earlier: tuple[Task, ...]  # attempts that failed or were interrupted, and were made again
    missing: list[str] = field(default_factory=list)
    folder: Folder | None = None

    @property
    def open_path(self) -> Path:
        """Path to open the sweep's files by; `path` is the path to show."""
        return self.folder.open_path if self.folder else self.path

    def part(self, name: str) -> Part | None:
        """The part of this name."""
        return next((part for part in self.parts if part.name == name), None)


def is_sweep(path: Path) -> bool:
    """Whether a directory is a sweep's."""
    try:
        return os.path.lexists(path / PLAN)
    except ValueError:
        return False


def open_sweep(path: Path) -> Sweep:
    """Open a sweep directory.

    Raises OptionError if it is no directory, ReportError if it is no sweep's or its plan is broken, and
    MachineError if this user may not use it.
    """
    folder = open_run_folder(path)
    try:
        facts = read_json_object(folder.open_path / PLAN)
    except TableError as error:
        raise ReportError(
            f"{clean(path)} is not a sweep directory ({error}); name one that `{front.command('sweep')}` made"
        ) from None
    if facts.get("kind") != "sweep":
        raise ReportError(
            f"{clean(path)}/{PLAN} is not of kind sweep; name one that `{front.command('sweep')}` made"
        )
    missing: list[str] = []
    if as_int(facts.get("schema")) != SCHEMA:
        missing.append(
            f"{PLAN} has schema {clean(facts.get('schema'), 20)}, this program reads {SCHEMA}; facts may be"
            " amiss"
        )
    parts = read_parts(facts, missing)
    configurations = read_configurations(facts, {part.name: part.reps for part in parts}, missing)
    tasks, earlier = read_tasks(folder.open_path, path, configurations, text(facts, "state"), missing)
    study = facts.get("study")
    return Sweep(
        path=path,
        facts=facts,
        name=text(facts, "name") or clean(folder.open_path.resolve().name, 80),
        command=text(facts, "command", 2000),
        state=text(facts, "state") or "unknown",
        tracing=text(facts, "tracing") or "on",
        order_seed=as_int(facts.get("order_seed")),
        reps=max(as_int(facts.get("reps")) or 1, 1),
        # of make verify it is a share of the finding's seconds
        goal_pct=None if facts.get("finding") else as_float(facts.get("goal_pct")),
        most_reps=as_int(facts.get("most_reps")),
        axes=tuple(clean(axis, 40) for axis in items(facts.get("axes"))[:100]),
        parts=parts,
        configurations=configurations,
        refused=read_refused(facts, missing),
        absent=read_absent(facts, missing),
        machines=read_machines(facts, missing),
        study=study if isinstance(study, dict) else None,
        tasks=tasks,
        earlier=earlier,
        missing=missing,
        folder=folder,
    )
