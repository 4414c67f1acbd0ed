# SPDX-License-Identifier: BSD-2-Clause
"""The runs of a sweep: each directory in runs/, with its task.json, the marker of a run that has ended.

A run without the marker is running, or was killed. A directory's name tells its task, and what an earlier
attempt ended as.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import TableError
from analysis.rundir.files import parse_json, read_limited
from analysis.rundir.run import as_float, as_int, dig
from analysis.rundir.sweep_plan import NAME, PLAN, WHY_LETTERS, Configuration, text

MARKER = "task.json"
RUNS = "runs"
MOST_TASKS = 100_000
_MARKER_BYTES = 64 * 1024
_TASK_NAME = re.compile(NAME)
_ATTEMPT_NAME = re.compile(rf"({NAME})\.(failed|interrupted)-([1-9][0-9]{{0,5}})")
_RUN_NAME = re.compile(r"(.+)-r([0-9]{1,6})(?:-(m[0-9]{1,6}))?")  # configuration, repetition, machine


@dataclass(frozen=True)
class Task:
    """One run of the sweep, as its task.json states it; without that file, as its directory's name does.

    outcome: done, failed, interrupted (killed before its end), running, or unreadable.
    order: the started run's number on its machine, anchors too; 0: not stated.
    """

    task: str
    configuration: Configuration | None  # None: an anchor, or unknown
    rep: int
    block: int
    order: int
    attempt: int
    machine: str
    outcome: str
    why: str
    exit_code: int | None
    seconds: float | None
    path: Path  # the run directory

    @property
    def is_anchor(self) -> bool:
        """Whether the run is an anchor: the same short run, first and last on its machine."""
        return self.task.startswith("anchor-")


def read_tasks(
    open_path: Path, path: Path, configurations: tuple[Configuration, ...], state: str, missing: list[str]
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """The last attempts and the earlier ones, each by machine and order."""
    by_id = {one.id: one for one in configurations}
    last, earlier = [], []
    for name in _run_names(open_path / RUNS, missing):
        attempt = _ATTEMPT_NAME.fullmatch(name)
        shown, opened = path / RUNS / name, open_path / RUNS / name
        if attempt:
            earlier.append(_task(attempt[1], opened, shown, by_id, attempt[2], int(attempt[3])))
        elif _TASK_NAME.fullmatch(name):
            without = "running" if state == "running" else "interrupted"
            last.append(_task(name, opened, shown, by_id, without, 0))

    def place(task: Task) -> tuple[str, int, str]:
        return task.machine, task.order, task.task

    return tuple(sorted(last, key=place)), tuple(sorted(earlier, key=place))


def _run_names(runs: Path, missing: list[str]) -> Iterator[str]:
    """Names of directories in runs/, sorted; links are left out."""
    try:
        with os.scandir(runs) as entries:
            names: list[str] = []
            for entry in entries:
                if len(names) >= MOST_TASKS:
                    missing.append(f"{RUNS}/ has more than {MOST_TASKS:,} entries; the others are not read")
                    break
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        missing.append(f"{RUNS}/ can't be read: {error.strerror}")
        return
    yield from sorted(names)


def _task(
    name: str, opened: Path, shown: Path, by_id: Mapping[str, Configuration], without: str, attempt: int
) -> Task:
    """A task from its marker. without: the outcome if it has none. attempt: of an earlier attempt, or 0."""
    facts: dict[str, Any] = {}
    outcome, why = without, ""
    if os.path.lexists(opened / MARKER):
        try:
            value = parse_json(read_limited(opened / MARKER, _MARKER_BYTES), MARKER)
            facts = value if isinstance(value, dict) else {}
            outcome, why = _outcome(name, facts, by_id, without if attempt else "")
        except TableError as error:
            outcome, why = ("unreadable", str(error)) if not attempt else (without, str(error))
    named = _RUN_NAME.fullmatch(name)
    rep = as_int(facts.get("rep"))
    if rep is None:
        rep = int(named[2]) if named else 0
    configuration = by_id.get(text(facts, "configuration") or (named[1] if named else ""))
    seconds = as_float(facts.get("seconds"))
    return Task(
        task=name,
        configuration=None if name.startswith("anchor-") else configuration,
        rep=max(rep, 0),
        block=max(as_int(facts.get("block")) or rep, 0),
        order=max(as_int(facts.get("order")) or 0, 0),
        attempt=max(as_int(facts.get("attempt")) or attempt or 1, 1),
        machine=text(facts, "machine", 40) or (named and named[3]) or "m1",
        outcome=outcome,
        why=why,
        exit_code=as_int(dig(facts, "exit_code")),
        seconds=seconds if seconds is not None and seconds >= 0 else None,
        path=shown,
    )


def _outcome(
    name: str, facts: dict[str, Any], by_id: Mapping[str, Configuration], is_earlier: str
) -> tuple[str, str]:
    """The outcome that a marker states, or unreadable, with the reason."""
    why = text(facts, "why", WHY_LETTERS)
    if is_earlier:  # its directory's name says what it was
        return is_earlier, why
    if facts.get("task") != name:
        return "unreadable", f"{MARKER} is not this run's"
    stated = facts.get("outcome")
    if stated not in ("done", "failed"):
        return "unreadable", f"{MARKER} states no outcome"
    if not name.startswith("anchor-") and text(facts, "configuration") not in by_id:
        return "unreadable", f"{MARKER} names a configuration that {PLAN} lacks"
    return str(stated), why
