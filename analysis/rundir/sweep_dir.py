# SPDX-License-Identifier: BSD-2-Clause
"""Open a sweep directory: read sweep.json and each run's task.json, which a stranger may have made.

A sweep may be half done, killed or spoilt: missing runs are normal, and what could not be read becomes a
sentence in Sweep.missing, which the report prints. docs/SCHEMA.md lists the keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.errors import ReportError, TableError
from analysis.rundir.files import parse_json, read_json_object, read_limited
from analysis.rundir.folder import Folder, open_run_folder
from analysis.rundir.run import as_float, as_int, clean, dig

SCHEMA = 1
PLAN = "sweep.json"
MARKER = "task.json"  # written last in a run's directory: the run is done
RUNS = "runs"
MOST_CONFIGURATIONS = 10_000
MOST_TASKS = 100_000
_MARKER_BYTES = 64 * 1024
_TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_ATTEMPT_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,79})\.(failed|interrupted)-([1-9][0-9]{0,5})")
_RUN_NAME = re.compile(r"(.+)-r([0-9]{1,6})(?:-(m[0-9]{1,6}))?")  # configuration, repetition, machine
_LABEL_LETTERS, _WORD_LETTERS, _WHY_LETTERS = 120, 400, 400


@dataclass(frozen=True)
class Part:
    """One part of a sweep; a plain sweep has one, a study several."""

    name: str
    title: str
    reps: int  # runs of each of its configurations that were asked for


@dataclass(frozen=True)
class Configuration:
    """One combination of words, run several times. axes: the words that vary."""

    id: str
    part: str
    subject: str
    label: str
    words: Mapping[str, str]
    axes: Mapping[str, str]
    reps: int  # runs that were asked for; with a goal, at least so many
    traced: bool
    virtual: bool  # run in a machine inside: its times are never compared with those outside
    left_out: Mapping[str, str]  # option: why it was left out
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """A combination that cannot be run here. kind: option or machine."""

    part: str
    subject: str
    label: str
    words: Mapping[str, str]
    axes: Mapping[str, str]
    why: str
    kind: str


@dataclass(frozen=True)
class Absent:
    """Something that a study asks for, and this machine lacks."""

    what: str
    why: str


@dataclass(frozen=True)
class Machine:
    """A machine that ran tasks. None: not stated."""

    id: str
    hostname: str
    kernel: str
    cpus: int | None
    memory_bytes: int | None
    cpu_model: str


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
            f"{clean(path)} is not a sweep directory ({error}); name one that `make sweep` made"
        ) from None
    if facts.get("kind") != "sweep":
        raise ReportError(f"{clean(path)}/{PLAN} is not of kind sweep; name one that `make sweep` made")
    missing: list[str] = []
    if as_int(facts.get("schema")) != SCHEMA:
        missing.append(
            f"{PLAN} has schema {clean(facts.get('schema'), 20)}, this program reads {SCHEMA}; facts may be"
            " amiss"
        )
    parts = tuple(
        Part(_text(one, "name"), _text(one, "title"), max(as_int(one.get("reps")) or 1, 1))
        for one in _objects(facts, "parts", missing)
    )
    configurations = _configurations(facts, {part.name: part.reps for part in parts}, missing)
    tasks, earlier = _tasks(folder.open_path, path, configurations, _text(facts, "state"), missing)
    study = facts.get("study")
    return Sweep(
        path=path,
        facts=facts,
        name=_text(facts, "name") or clean(folder.open_path.resolve().name, 80),
        command=_text(facts, "command", 2000),
        state=_text(facts, "state") or "unknown",
        tracing=_text(facts, "tracing") or "on",
        order_seed=as_int(facts.get("order_seed")),
        reps=max(as_int(facts.get("reps")) or 1, 1),
        goal_pct=as_float(facts.get("goal_pct")),
        most_reps=as_int(facts.get("most_reps")),
        axes=tuple(clean(axis, 40) for axis in _list(facts.get("axes"))[:100]),
        parts=parts,
        configurations=configurations,
        refused=tuple(
            Refused(
                _text(one, "part"), _text(one, "subject"), _text(one, "label"),
                _words(one, "words"), _words(one, "axes"),
                _text(one, "why", _WHY_LETTERS), _text(one, "kind") or "option",
            )
            for one in _objects(facts, "refused", missing)
        ),
        absent=tuple(
            Absent(_text(one, "what", _WHY_LETTERS), _text(one, "why", _WHY_LETTERS))
            for one in _objects(facts, "absent", missing)
        ),
        machines=_machines(facts, missing),
        study=study if isinstance(study, dict) else None,
        tasks=tasks,
        earlier=earlier,
        missing=missing,
        folder=folder,
    )  # fmt: skip


def _text(tree: Mapping[str, Any], key: str, letters: int = _LABEL_LETTERS) -> str:
    value = tree.get(key)
    return "" if value is None or isinstance(value, (dict, list)) else clean(value, letters)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _words(tree: Mapping[str, Any], key: str) -> dict[str, str]:
    """An object of short texts; other values are left out."""
    value = tree.get(key)
    if not isinstance(value, Mapping):
        return {}
    return {
        clean(name, 60): clean(word, _WORD_LETTERS)
        for name, word in list(value.items())[:100]
        if isinstance(word, (str, int, float))
    }


def _objects(facts: Mapping[str, Any], key: str, missing: list[str]) -> list[Mapping[str, Any]]:
    """The objects of a list in the plan; what is none is counted in `missing`."""
    value = facts.get(key, [])
    if not isinstance(value, list):
        missing.append(f"{PLAN}: {key} is no list")
        return []
    if len(value) > MOST_CONFIGURATIONS:
        missing.append(f"{PLAN}: only the first {MOST_CONFIGURATIONS:,} of {len(value):,} {key} are read")
    kept = [one for one in value[:MOST_CONFIGURATIONS] if isinstance(one, Mapping)]
    if len(kept) < min(len(value), MOST_CONFIGURATIONS):
        missing.append(f"{PLAN}: {len(value) - len(kept)} of {key} are no objects")
    return kept


def _configurations(
    facts: Mapping[str, Any], reps_of_parts: Mapping[str, int], missing: list[str]
) -> tuple[Configuration, ...]:
    kept: dict[str, Configuration] = {}
    broken = 0
    for one in _objects(facts, "configurations", missing):
        name = _text(one, "id")
        if not _TASK_NAME.fullmatch(name) or name in kept:
            broken += 1
            continue
        words = _words(one, "words")
        subject = _text(one, "subject") or words.get("FS", "") or name
        kept[name] = Configuration(
            id=name,
            part=_text(one, "part"),
            subject=subject,
            label=_text(one, "label") or subject,
            words=words,
            axes=_words(one, "axes"),
            reps=max(as_int(one.get("reps")) or reps_of_parts.get(_text(one, "part"), 1), 1),
            traced=one.get("traced") is not False,
            virtual=one.get("virtual") is True,
            left_out=_words(one, "left_out"),
            notes=tuple(clean(note, _WHY_LETTERS) for note in _list(one.get("notes"))[:100]),
        )
    if broken:
        missing.append(f"{PLAN}: {broken} configurations have no id of their own, and are left out")
    return tuple(kept.values())


def _machines(facts: Mapping[str, Any], missing: list[str]) -> dict[str, Machine]:
    value = facts.get("machines", {})
    if not isinstance(value, Mapping):
        missing.append(f"{PLAN}: machines is no object")
        return {}
    return {
        clean(name, 40): Machine(
            clean(name, 40),
            _text(about, "hostname"),
            _text(about, "kernel"),
            as_int(about.get("cpus")),
            as_int(about.get("memory_bytes")),
            _text(about, "cpu_model"),
        )
        for name, about in list(value.items())[:1000]
        if isinstance(about, Mapping)
    }


def _tasks(
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
    configuration = by_id.get(_text(facts, "configuration") or (named[1] if named else ""))
    seconds = as_float(facts.get("seconds"))
    return Task(
        task=name,
        configuration=None if name.startswith("anchor-") else configuration,
        rep=max(rep, 0),
        block=max(as_int(facts.get("block")) or rep, 0),
        order=max(as_int(facts.get("order")) or 0, 0),
        attempt=max(as_int(facts.get("attempt")) or attempt or 1, 1),
        machine=_text(facts, "machine", 40) or (named and named[3]) or "m1",
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
    why = _text(facts, "why", _WHY_LETTERS)
    if is_earlier:  # its directory's name says what it was
        return is_earlier, why
    if facts.get("task") != name:
        return "unreadable", f"{MARKER} is not this run's"
    stated = facts.get("outcome")
    if stated not in ("done", "failed"):
        return "unreadable", f"{MARKER} states no outcome"
    if not name.startswith("anchor-") and _text(facts, "configuration") not in by_id:
        return "unreadable", f"{MARKER} names a configuration that {PLAN} lacks"
    return str(stated), why
