# SPDX-License-Identifier: BSD-2-Clause
"""The rules that tell a wait's cause from its kernel stack: this folder's TOML files, read and checked."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
COMMON = "common"
NOT_RULES = ("causes", "roles")  # files of this folder without rules
GROUPS = ("read", "write", "journal", "lock", "throttle", "memory", "own", "other")
NO_STACK, UNKNOWN, NONE = "no_stack", "unknown", "none"
LOCK, IO, IDLE, STOPPED = "lock", "io", "idle", "stopped"
BUILT_IN = (NO_STACK, UNKNOWN, NONE, LOCK, IO, IDLE, STOPPED)  # causes that the code gives without a rule
PATTERN = re.compile(r"[A-Za-z0-9_*.\[\]/-]+")
RULE_KEYS = {"cause", "functions", "under", "first", "main", "anywhere", "io", "lock"}
FLAGS = ("first", "main", "anywhere", "lock")


class RuleError(Exception):
    """A TOML file of this folder is broken; the message names the file and the fault."""


@dataclass(frozen=True)
class Cause:
    """What a thread may wait for. group: the colour that pictures give it."""

    name: str
    text: str
    group: str


@dataclass(frozen=True)
class Patterns:
    """Names of functions; "*" stands for any letters."""

    names: frozenset[str]
    pattern: re.Pattern[str] | None

    def match(self, name: str) -> bool:
        """Whether one of the patterns is this name."""
        return name in self.names or (self.pattern is not None and self.pattern.match(name) is not None)


@dataclass(frozen=True)
class Rule:
    """One rule.

    under: only if a function further out matches one of these. first: only the innermost frame. main: only
    the innermost frame, if it is the function that a kernel thread runs. anywhere: wins over other rules. io:
    only if the task is in I/O by its own word, or only if it is not. lock: functions are primitives of locks,
    and the first caller outside of them matches under.
    """

    cause: str
    functions: Patterns
    under: Patterns | None = None
    first: bool = False
    main: bool = False
    anywhere: bool = False
    lock: bool = False
    io: bool | None = None


@dataclass(frozen=True)
class Rules:
    """All rules, those of file systems first. digest: of the files."""

    causes: Mapping[str, Cause]
    skip: Patterns  # frames that never tell a cause
    locks: Patterns  # primitives of sleeping locks
    rules: Sequence[Rule]
    digest: str


def patterns(names: object, what: str) -> Patterns:
    """A list of names as Patterns. Raises RuleError."""
    if not isinstance(names, list) or not names:
        raise RuleError(f"{what} is no list of functions")
    for name in names:
        if not isinstance(name, str) or not PATTERN.fullmatch(name):
            raise RuleError(f"{what} has the invalid pattern {name!r}")
    if len(set(names)) < len(names):
        raise RuleError(f"{what} names {next(n for n in names if names.count(n) > 1)} twice")
    # of "[unknown]" the brackets are letters
    wild = [translate(name.replace("[", "[[]")) for name in names if "*" in name]
    plain = frozenset(name for name in names if "*" not in name)
    return Patterns(plain, re.compile("|".join(wild)) if wild else None)


def _rule(entry: object, causes: Mapping[str, Cause], file: str) -> Rule:
    if not isinstance(entry, Mapping):
        raise RuleError(f"{file}: a rule is no table")
    if unknown := sorted(set(entry) - RULE_KEYS):
        raise RuleError(f"{file}: a rule has the unknown key {unknown[0]}")
    cause = entry.get("cause")
    if not isinstance(cause, str) or cause not in causes or cause in (NO_STACK, UNKNOWN, NONE):
        raise RuleError(f"{file}: no cause is called {cause!r}")
    flags = {flag: entry.get(flag, False) for flag in FLAGS}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise RuleError(f"{file}: {flag} of a rule of {cause} is neither true nor false")
    if sum(flags.values()) > 1:
        raise RuleError(f"{file}: a rule of {cause} has more than one of {', '.join(FLAGS)}")
    functions = patterns(entry.get("functions"), f"{file}: functions of a rule of {cause}")
    is_io = entry.get("io")
    if is_io is not None and not isinstance(is_io, bool):
        raise RuleError(f"{file}: io of a rule of {cause} is neither true nor false")
    under = entry.get("under")
    if under is not None:
        under = patterns(under, f"{file}: under of a rule of {cause}")
    if flags["lock"] and under is None:
        raise RuleError(f"{file}: a rule of {cause} names a lock, and nobody under which it is taken")
    return Rule(cause, functions, under, io=is_io, **flags)


def _causes(table: Mapping[str, Any], file: str) -> dict[str, Cause]:
    causes: dict[str, Cause] = {}
    for entry in table.get("cause", []):
        name, text, group = (entry.get(key) for key in ("name", "text", "group"))
        if set(entry) != {"name", "text", "group"} or not isinstance(text, str) or not text:
            raise RuleError(f"{file}: a cause needs name, text and group, and nothing else")
        if not isinstance(name, str) or not re.fullmatch(r"[a-z_]+", name) or name in causes:
            raise RuleError(f"{file}: {name!r} is no new name of a cause")
        if group not in GROUPS:
            raise RuleError(f"{file}: the group of {name} is none of {', '.join(GROUPS)}")
        causes[name] = Cause(name, text, group)
    if missing := [name for name in BUILT_IN if name not in causes]:
        raise RuleError(f"{file}: the cause {missing[0]} is missing")
    return causes


def parse(path: Path) -> dict[str, Any]:
    """A TOML file. Raises RuleError."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"{path.name}: {error}") from None


def read_rules(folder: Path) -> Rules:
    """The rules of a folder's files, checked. Raises RuleError."""
    causes = _causes(parse(folder / "causes.toml"), "causes.toml")
    files = sorted(path for path in folder.glob("*.toml") if path.stem not in NOT_RULES)
    files.sort(key=lambda path: path.stem == COMMON)  # a file system's rules are the more exact ones
    rules: list[Rule] = []
    lists: dict[str, Patterns] = {}
    for path in files:
        table = parse(path)
        allowed = {"rule", "skip", "locks"} if path.stem == COMMON else {"rule"}
        if unknown := sorted(set(table) - allowed):
            raise RuleError(f"{path.name}: unknown key {unknown[0]}")
        for key in sorted(allowed - {"rule"}):
            lists[key] = patterns(table.get(key), f"{path.name}: {key}")
        rules += [_rule(entry, causes, path.name) for entry in table.get("rule", [])]
    if lists.keys() != {"skip", "locks"}:
        raise RuleError("common.toml is missing")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.toml"))))
    return Rules(causes, lists["skip"], lists["locks"], rules, digest.hexdigest()[:16])


@cache
def rules() -> Rules:
    """The rules of this folder."""
    return read_rules(FOLDER)
