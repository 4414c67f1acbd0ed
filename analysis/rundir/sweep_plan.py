# SPDX-License-Identifier: BSD-2-Clause
"""The plan of a sweep, sweep.json: parts, configurations, refusals and machines, each field checked.

A stranger may have made it. What is broken is left out, and a sentence in `missing` says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.rundir.run import as_int, clean

PLAN = "sweep.json"
MOST_CONFIGURATIONS = 10_000
NAME = "[A-Za-z0-9][A-Za-z0-9_-]{0,79}"  # of a configuration or a task
LABEL_LETTERS, WORD_LETTERS, WHY_LETTERS = 120, 400, 400


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


def read_parts(facts: Mapping[str, Any], missing: list[str]) -> tuple[Part, ...]:
    """The parts of the sweep."""
    return tuple(
        Part(text(one, "name"), text(one, "title"), max(as_int(one.get("reps")) or 1, 1))
        for one in _objects(facts, "parts", missing)
    )


def read_refused(facts: Mapping[str, Any], missing: list[str]) -> tuple[Refused, ...]:
    """The combinations that cannot be run."""
    return tuple(
        Refused(
            part=text(one, "part"),
            subject=text(one, "subject"),
            label=text(one, "label"),
            words=words(one, "words"),
            axes=words(one, "axes"),
            why=text(one, "why", WHY_LETTERS),
            kind=text(one, "kind") or "option",
        )
        for one in _objects(facts, "refused", missing)
    )


def read_absent(facts: Mapping[str, Any], missing: list[str]) -> tuple[Absent, ...]:
    """What a study asks for, and this machine lacks."""
    return tuple(
        Absent(text(one, "what", WHY_LETTERS), text(one, "why", WHY_LETTERS))
        for one in _objects(facts, "absent", missing)
    )


def text(tree: Mapping[str, Any], key: str, letters: int = LABEL_LETTERS) -> str:
    """A short text; empty if it is missing, or an object or a list."""
    value = tree.get(key)
    return "" if value is None or isinstance(value, (dict, list)) else clean(value, letters)


def items(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def words(tree: Mapping[str, Any], key: str) -> dict[str, str]:
    """An object of short texts; other values are left out."""
    value = tree.get(key)
    if not isinstance(value, Mapping):
        return {}
    return {
        clean(name, 60): clean(word, WORD_LETTERS)
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


def read_configurations(
    facts: Mapping[str, Any], reps_of_parts: Mapping[str, int], missing: list[str]
) -> tuple[Configuration, ...]:
    """The configurations that have an id of their own, in the plan's order."""
    kept: dict[str, Configuration] = {}
    broken = 0
    for one in _objects(facts, "configurations", missing):
        name = text(one, "id")
        if not re.fullmatch(NAME, name) or name in kept:
            broken += 1
            continue
        own = words(one, "words")
        subject = text(one, "subject") or own.get("FS", "") or name
        kept[name] = Configuration(
            id=name,
            part=text(one, "part"),
            subject=subject,
            label=text(one, "label") or subject,
            words=own,
            axes=words(one, "axes"),
            reps=max(as_int(one.get("reps")) or reps_of_parts.get(text(one, "part"), 1), 1),
            traced=one.get("traced") is not False,
            virtual=one.get("virtual") is True,
            left_out=words(one, "left_out"),
            notes=tuple(clean(note, WHY_LETTERS) for note in items(one.get("notes"))[:100]),
        )
    if broken:
        missing.append(f"{PLAN}: {broken} configurations have no id of their own, and are left out")
    return tuple(kept.values())


def read_machines(facts: Mapping[str, Any], missing: list[str]) -> dict[str, Machine]:
    """The machines by id."""
    value = facts.get("machines", {})
    if not isinstance(value, Mapping):
        missing.append(f"{PLAN}: machines is no object")
        return {}
    return {
        clean(name, 40): Machine(
            clean(name, 40),
            text(about, "hostname"),
            text(about, "kernel"),
            as_int(about.get("cpus")),
            as_int(about.get("memory_bytes")),
            text(about, "cpu_model"),
        )
        for name, about in list(value.items())[:1000]
        if isinstance(about, Mapping)
    }
