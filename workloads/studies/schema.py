# SPDX-License-Identifier: BSD-2-Clause
"""Read and check a study's TOML file, and the CSV file of its published figures. README.md has the keys."""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.catalog import SCALES
from workloads.studies.published import Figure, read_published
from workloads.system.errors import OptionError
from workloads.system.tree import TREE

_HERE = TREE / "workloads/studies"
_MOST_BYTES = 1 << 20
_MOST_LETTERS = 60
# Variables of make trace that a study may set. SCALE is the study's own; others belong to the command line.
WORDS = (
    *("FS", "WL", "ARGS", "DISK", "JOURNAL", "SIZE", "MKFS", "MOUNT", "SCHED", "THREADS", "MEM", "CPUS"),
    *("COLLECT", "WITH", "CMD", "SEED", "VM", "KERNEL"),
)
_KEYS = ("title", "source", "year", "system", "about", "reps", "absent", "subject", "part")
_PART = ("name", "title", "words", "axes", "reps", "subject", "table", *SCALES)
_OF_SCALE = ("words", "axes", "reps", "skip", "without", "why", "inside", "seconds")
INSIDE = ("all", "first", "none")
_TABLE_TEXTS = (
    *("shape", "title", "published", "better", "note", "axis", "baseline", "baseline_row", "correlation"),
)


@dataclass(frozen=True)
class Subject:
    """One row or column of the study's tables: a file system with its options."""

    label: str  # as in the published figures
    words: Mapping[str, str]
    group: str  # published name of several subjects, the best of which counts; else the label


@dataclass(frozen=True)
class AtScale:
    """What a part is at one SCALE."""

    words: Mapping[str, str]
    axes: Mapping[str, tuple[str, ...]]
    reps: int
    skip: bool  # the whole part is left out
    without: tuple[str, ...]  # labels of subjects that are left out
    why: str  # reason of skip and without
    seconds: float | None  # estimated duration of the workload of one run; None: the catalog's
    inside: str  # which runs of a subject in a virtual machine: all, none, or the first value of each axis


@dataclass(frozen=True)
class StudyPart:
    """One experiment of a study: subjects, axes and the tables made of them."""

    name: str
    title: str
    subjects: tuple[Subject, ...]
    scales: Mapping[str, AtScale]


@dataclass(frozen=True)
class Study:
    """One published comparison."""

    name: str
    title: str
    year: int
    parts: tuple[StudyPart, ...]
    absent: tuple[Mapping[str, str], ...]  # {"what", "why"}: what no run shows
    published: tuple[Figure, ...]
    toml: Mapping[str, Any]  # the whole file; each part has its subjects

    def toml_at(self, scale: str) -> dict[str, Any]:
        """Return the file for sweep.json: each part with the tables of this scale."""
        parts = []
        for part in self.toml["part"]:
            tables = [table for table in part.get("table", []) if scale in table.get("scales", SCALES)]
            tables = [{key: value for key, value in table.items() if key != "scales"} for table in tables]
            parts.append({**part, "table": tables})
        return {**self.toml, "part": parts}


def read(path: Path) -> Study:
    """Return the study that a TOML file describes, with the figures of the CSV file beside it, if any.

    Raises OptionError naming the file and the fault.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"larger than {_MOST_BYTES >> 20} MiB")
        study = _study(path, tomllib.loads(data.decode()))
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        fault = str(error)
        if isinstance(error, OSError):
            fault = f"cannot be read: {error.strerror}"
        elif isinstance(error, RecursionError):
            fault = "too many brackets inside one another"
        raise OptionError(f"{path} is broken ({fault}): correct it as {_HERE / 'README.md'} says") from None
    return study


def _study(path: Path, table: dict[str, Any]) -> Study:
    _only(table, _KEYS, "")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,29}", path.stem):
        raise ValueError("its name, which names directories, is not of at most 30 letters, digits, . _ -")
    reps = _table(table, "reps", "")
    _only(reps, SCALES, " of reps")
    by_scale = {scale: _whole(reps, scale, " of reps") for scale in SCALES}
    shared = _tables(table, "subject", "")
    parts = _tables(table, "part", "")
    if not parts:
        raise ValueError("[[part]] is missing")
    for part in parts:
        part.setdefault("subject", shared)
    _text(table, "source", "")
    _text(table, "system", "")
    _text(table, "about", "")
    published = read_published(path.with_suffix(".csv"))
    study = Study(
        name=path.stem,
        title=_text(table, "title", ""),
        year=_whole(table, "year", "", most=9999),
        parts=tuple(_part(part, by_scale) for part in parts),
        absent=tuple(_absent(each) for each in _tables(table, "absent", "")),
        published=published,
        toml={key: value for key, value in table.items() if key != "subject"},
    )
    _unique([part.name for part in study.parts], "parts")
    known = {figure.table for figure in published}
    for part in parts:
        for each in part.get("table", []):
            if each.get("published", "") not in {"", *known}:
                raise ValueError(f"{path.with_suffix('.csv').name} has no table {each['published']!r}")
    return study


def _part(table: Mapping[str, Any], reps: Mapping[str, int]) -> StudyPart:
    name = _text(table, "name", " of a part")
    where = f" of part {name}"
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise ValueError(f"the part's name {name!r} is not of small letters, digits and dashes")
    _only(table, _PART, where)
    subjects = tuple(_subject(each, where) for each in _tables(table, "subject", where))
    _unique([subject.label for subject in subjects], f"subjects{where}")
    for each in _tables(table, "table", where):
        _check_table(each, where)
    part = StudyPart(
        name=name,
        title=_text(table, "title", where),
        subjects=subjects,
        scales={scale: _at_scale(table, scale, reps[scale], where) for scale in SCALES},
    )
    labels = {subject.label for subject in subjects}
    for scale, at in part.scales.items():
        for label in at.without:
            if label not in labels:
                raise ValueError(f"without of {scale}{where} names no subject: {label!r}")
        for subject in subjects:
            if clash := set(subject.words) & set(at.axes):
                raise ValueError(f"{min(clash)}{where} is a word of subject {subject.label} and an axis")
            if not {"WL", "CMD"} & {*at.words, *subject.words, *at.axes}:
                raise ValueError(f"{scale}{where} has neither WL nor CMD")
            if "FS" not in {*at.words, *subject.words, *at.axes}:
                raise ValueError(f"{scale}{where} has no FS for subject {subject.label}")
    return part


def _subject(table: Mapping[str, Any], where: str) -> Subject:
    _only(table, ("label", "words", "group", "note"), f" of a subject{where}")
    label = _text(table, "label", f" of a subject{where}")
    _text(table, "note", f" of subject {label}", default="")
    return Subject(
        label, _words(table, f" of subject {label}"), _text(table, "group", f" of subject {label}", label)
    )


def _at_scale(part: Mapping[str, Any], scale: str, reps: int, where: str) -> AtScale:
    own = _table(part, scale, where)
    here = f" of {scale}{where}"
    _only(own, _OF_SCALE, here)
    at = AtScale(
        words={**_words(part, where), **_words(own, here)},
        axes={**_axes(part, where), **_axes(own, here)},
        reps=_whole(own, "reps", here, default=_whole(part, "reps", where, default=reps)),
        skip=_truth(own, "skip", here),
        without=_strings(own, "without", here),
        why=_text(own, "why", here, default=""),
        inside=_text(own, "inside", here, default="all"),
        seconds=_whole(own, "seconds", here, most=1_000_000) if "seconds" in own else None,
    )
    if at.inside not in INSIDE:
        raise ValueError(f"inside{here} is none of {', '.join(INSIDE)}")
    if bool(at.why) != (at.skip or bool(at.without)):
        raise ValueError(f"why{here} goes with skip or without")
    if both := set(at.words) & set(at.axes):
        raise ValueError(f"{min(both)}{here} is a word and an axis")
    return at


def _check_table(table: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for a [[part.table]] that is not as the README says."""
    here = f" of a table{where}"
    _only(table, (*_TABLE_TEXTS, "rows", "where", "scales"), here)
    for scale in _strings(table, "scales", here):
        if scale not in SCALES:
            raise ValueError(f"scales{here} names {scale!r}, none of {', '.join(SCALES)}")
    for key in _TABLE_TEXTS:
        _text(table, key, here, default=None if key in ("shape", "title") else "")
    if table.get("better", "") not in ("", "higher", "lower"):
        raise ValueError(f"better{here} is neither higher nor lower")
    for key in ("rows", "where"):
        for name, value in _table(table, key, here).items():
            if value != "":  # of rows: no measure exists for this published row
                _check_text(value, f"{key}.{name}{here}")


def _absent(table: Mapping[str, Any]) -> dict[str, str]:
    _only(table, ("what", "why"), " of absent")
    return {key: _text(table, key, " of absent") for key in ("what", "why")}


def _words(table: Mapping[str, Any], where: str) -> dict[str, str]:
    words = _table(table, "words", where)
    _only(words, WORDS, f" of words{where}")
    return {name: _check_text(value, f"{name}{where}") for name, value in words.items()}


def _axes(table: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    axes = _table(table, "axes", where)
    _only(axes, WORDS, f" of axes{where}")
    for name in axes:
        if not _strings(axes, name, where):
            raise ValueError(f"the axis {name}{where} is empty")
        _unique(axes[name], f"values of {name}{where}")
    return {name: tuple(values) for name, values in axes.items()}


def _only(table: Mapping[str, Any], keys: Collection[str], where: str) -> None:
    """Raise ValueError for an unknown key."""
    for key in table:
        if key not in keys:
            raise ValueError(f"unknown key {key}{where}")


def _unique(values: Collection[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"two {what} are named {value!r}")
        seen.add(value)


def _table(table: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise ValueError(f"{key}{where} must be a table")
    return value


def _tables(table: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"{key}{where} must be tables, [[{key}]]")
    return value


def _check_text(value: object, what: str, letters: int = 500) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} must be a text")
    if len(value) > letters or not value.isprintable():
        raise ValueError(f"{what} has a control character, or more than {letters} letters")
    return value


def _text(table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    if key not in table:
        if default is None:
            raise ValueError(f"{key}{where} is missing")
        return default
    letters = _MOST_LETTERS if key in ("name", "label", "group") else 500
    return _check_text(table[key], key + where, letters)


def _whole(
    table: Mapping[str, Any], key: str, where: str, default: int | None = None, most: int = 1000
) -> int:
    if default is not None and key not in table:
        return default
    value = table.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ValueError(f"{key}{where} must be a whole number from 1 to {most}")
    return value


def _strings(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise ValueError(f"{key}{where} must be a list of texts")
    return tuple(_check_text(each, key + where) for each in value)


def _truth(table: Mapping[str, Any], key: str, where: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key}{where} must be true or false")
    return value
