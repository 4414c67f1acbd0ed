# SPDX-License-Identifier: BSD-2-Clause
"""What a study's sweep.json states: its tables and the published figures. A stranger may have written it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.rundir.run import as_float, clean, dig
from analysis.rundir.sweep_dir import Sweep

CORRELATION = "readdir and inode order, rank correlation"  # row and measure of the shape million_files
MOST_PARTS, MOST_TABLES, MOST_ROWS, MOST_PUBLISHED = 50, 60, 200, 5_000
NAME_LETTERS, TEXT_LETTERS = 80, 400
BOUNDS = ("", "<", ">")
RANKS = {
    "best": 1, "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "last": 1000,
}  # fmt: skip


class SpecError(Exception):
    """A table of the study is wrong. The message: subject, fact, remedy."""


@dataclass(frozen=True)
class Published:
    """One published figure. value None: the source names only an order, in its note."""

    value: float | None
    unit: str
    bound: str  # "<" or ">": the source states only a bound
    note: str

    @property
    def rank(self) -> int | None:
        """The rank that the note states, 1 the best; None: the note states none."""
        return RANKS.get(self.note.split(maxsplit=1)[0].lower().strip(",.;:")) if self.note else None

    @property
    def text(self) -> str:
        """The figure as the source has it, without its unit."""
        if self.value is not None:
            return f"{self.bound}{self.value:g}"
        return self.note if self.rank is not None else "-"


@dataclass(frozen=True)
class TableSpec:
    """One table of a study's part. rows: published row (may be a template of words) to measure's name."""

    part: str
    shape: str
    title: str
    published: str  # `table` of the published figures; empty: none
    rows: Mapping[str, str]
    better: str  # higher, lower; empty: as the measure states
    note: str
    where: Mapping[str, str]  # only configurations with these words
    axis: str
    baseline: str
    baseline_row: str
    groups: Mapping[str, str]  # subject of a configuration: subject of the table
    others: str = ""  # measures whose names begin so get rows of their own, too


@dataclass(frozen=True)
class Study:
    """The study behind a sweep."""

    name: str
    scale: str
    title: str
    source: str  # key of docs/SOURCES.md
    system: str  # the machine of the source
    about: str
    tables: tuple[TableSpec, ...]
    published: Mapping[str, Mapping[tuple[str, str], Published]]  # by table, then row and subject
    problems: tuple[str, ...] = field(default=())  # sentences on what is wrong


@dataclass(frozen=True)
class Needs:
    """What a shape takes. rows: where the TOML has none."""

    keys: tuple[str, ...] = ()  # of the TOML, besides COMMON
    rows: Mapping[str, str] = field(default_factory=dict)
    others: str = ""  # see TableSpec.others
    better: str = ""  # where neither the TOML nor the measure states it


COMMON = ("shape", "title", "published", "rows", "better", "note", "where")


def read_study(sweep: Sweep, shapes: Mapping[str, Needs]) -> Study | None:
    """The study of a sweep; None: the sweep is none's. shapes: the known shapes by name."""
    if sweep.study is None:
        return None
    toml = sweep.study.get("toml")
    toml = toml if isinstance(toml, Mapping) else {}
    problems: list[str] = []
    tables: list[TableSpec] = []
    for part in _objects(toml.get("part"), MOST_PARTS, "parts", problems):
        stated = part.get("subject", toml.get("subject"))
        groups = {
            _text(one, "label"): _text(one, "group")
            for one in _objects(stated, MOST_ROWS, "subjects", problems)
            if _text(one, "group")
        }
        for table in _objects(part.get("table"), MOST_TABLES, "tables of a part", problems):
            try:
                tables.append(_table(_text(part, "name"), table, groups, shapes))
            except SpecError as error:
                problems.append(str(error))
    if len(tables) > MOST_TABLES:
        problems.append(
            f"sweep.json: only the first {MOST_TABLES} of the study's {len(tables)} tables are shown"
        )
    return Study(
        name=clean(dig(sweep.facts, "study", "name"), NAME_LETTERS),
        scale=clean(dig(sweep.facts, "study", "scale") or "", NAME_LETTERS),
        title=_text(toml, "title") or sweep.name,
        source=_text(toml, "source"),
        system=_text(toml, "system", TEXT_LETTERS),
        about=_text(toml, "about", 4 * TEXT_LETTERS),
        tables=tuple(tables[:MOST_TABLES]),
        published=_published(sweep.study.get("published"), problems),
        problems=tuple(problems),
    )


def _table(
    part: str, table: Mapping[str, Any], groups: Mapping[str, str], shapes: Mapping[str, Needs]
) -> TableSpec:
    shape, title = _text(table, "shape"), _text(table, "title")
    name = f"table {title or shape or '?'!r} of part {part!r}"
    if shape not in shapes:
        raise SpecError(f"{name}: the shape {shape!r} is unknown; known are {', '.join(sorted(shapes))}")
    needs = shapes[shape]
    keys = (*COMMON, *needs.keys)
    unknown = sorted(clean(key, 40) for key in table if key not in keys)
    if unknown:
        raise SpecError(
            f"{name}: the key {unknown[0]!r} is unknown; the shape {shape} takes {', '.join(sorted(keys))}"
        )
    for key in ("rows", "where"):
        if not isinstance(table.get(key, {}), Mapping):
            raise SpecError(f"{name}: {key} is no table of names; write {key} = {{ NAME = VALUE }}")
    better = _text(table, "better")
    if better not in ("", "higher", "lower"):
        raise SpecError(f"{name}: better is {better!r}; write higher or lower")
    rows = _names(table, "rows") or dict(needs.rows)
    if "correlation" in needs.keys:
        rows[CORRELATION] = _text(table, "correlation") or CORRELATION
    return TableSpec(
        part=part,
        shape=shape,
        title=title or shape,
        published=_text(table, "published"),
        rows=rows,
        better=better or needs.better,
        note=_text(table, "note", TEXT_LETTERS),
        where=_names(table, "where"),
        axis=_text(table, "axis"),
        baseline=_text(table, "baseline"),
        baseline_row=_text(table, "baseline_row"),
        groups=groups,
        others=needs.others,
    )


def _published(rows: object, problems: list[str]) -> dict[str, dict[tuple[str, str], Published]]:
    tables: dict[str, dict[tuple[str, str], Published]] = {}
    wrong = 0
    for one in _objects(rows, MOST_PUBLISHED, "published figures", problems):
        value, bound = one.get("value"), _text(one, "bound")
        number = _number(value)
        if (number is None and value not in (None, "")) or bound not in BOUNDS:
            wrong += 1
            continue
        figure = Published(number, _text(one, "unit"), bound, _text(one, "note", TEXT_LETTERS))
        tables.setdefault(_text(one, "table"), {})[_text(one, "row"), _text(one, "subject")] = figure
    if wrong:
        problems.append(f"{wrong} published figures have no number as value, or a bound that is not < or >")
    return tables


def _number(value: object) -> float | None:
    """A finite number, also as text; CSV has all values as texts."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return None if isinstance(value, bool) else as_float(value)


def _text(tree: Mapping[str, Any], key: str, letters: int = NAME_LETTERS) -> str:
    value = tree.get(key)
    return clean(value, letters) if isinstance(value, (str, int, float)) else ""


def _names(tree: Mapping[str, Any], key: str) -> dict[str, str]:
    value = tree.get(key, {})
    return {
        clean(name, NAME_LETTERS): clean(word, NAME_LETTERS) for name, word in list(value.items())[:MOST_ROWS]
    }


def _objects(value: object, most: int, what: str, problems: list[str]) -> list[Mapping[str, Any]]:
    """The objects of a list, at most so many; what is left out becomes a problem."""
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(f"sweep.json: the study's {what} are no list")
        return []
    if len(value) > most:
        problems.append(f"sweep.json: only the first {most:,} of {len(value):,} {what} are read")
    return [one for one in value[:most] if isinstance(one, Mapping)]
