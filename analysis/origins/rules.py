# SPDX-License-Identifier: BSD-2-Clause
"""The rules of this folder's TOML files: which columns of a request name why it was sent.

The files are read in the order of their `order`, the rules of a file from the top; the first rule that fits a
request gives its `why`. A rule fits if every column that it names has one of the values listed for it.
Values are patterns of the shell: "?*" is any value, "" is none.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
UNKNOWN = "unknown"
RULES_MOST = 63  # a set of rules is a word of 64 bits

WAITED = "waited"
# key of a rule: the column it is about
LABELS = {  # one of an enum's words
    "op": "op",
    "class": "class",
    "submitter": "submitter",
    WAITED: "waited",
    "call": "call",
    "call_state": "call_state",
    "event": "event_kind",
}
FUNCTIONS = {"work": "work_id", "end_io": "end_io_id"}  # a kernel function's number
SWITCHES = ("in_transaction", "in_workload")  # true or false
EVENT_WHY = "event_why"  # why the request's event began
COMM = "comm"
FLAGS = "flags"  # all of these are set
WITHOUT_FLAGS = "without_flags"  # none of these is set
CALL_PLACE, WHY_PLACE = "{call}", "{why}"  # in a rule's `why`: the request's call, its event's reason

_PATTERNS = (*LABELS, *FUNCTIONS, EVENT_WHY, COMM)
_KEYS = {"why", *_PATTERNS, *SWITCHES, FLAGS, WITHOUT_FLAGS}


@dataclass(frozen=True)
class Rule:
    """One rule. A column that it does not name may have any value."""

    why: str
    patterns: Mapping[str, tuple[str, ...]]  # by key
    flags: frozenset[str]
    without_flags: frozenset[str]
    switches: Mapping[str, bool]

    def fits(self, key: str, value: str) -> bool:
        """Whether a value of the column satisfies the rule."""
        patterns = self.patterns.get(key)
        return patterns is None or any(fnmatchcase(value, pattern) for pattern in patterns)

    def fits_flags(self, flags: frozenset[str]) -> bool:
        """Whether these flags satisfy the rule."""
        return self.flags <= flags and not self.without_flags & flags

    def fits_switch(self, key: str, value: bool) -> bool:
        """Whether a yes or no satisfies the rule."""
        return self.switches.get(key, value) == value


@cache
def rules_digest() -> str:
    """Changes with the rules: a table that older rules made is made anew."""
    files = [path.read_bytes() for path in sorted(HERE.glob("*.toml"))]
    return hashlib.sha256(b"\0".join(files)).hexdigest()[:16]


@cache
def load_rules() -> tuple[Rule, ...]:
    """All rules, in their order. Raises ValueError naming the file and the fault."""
    files = [(path, tomllib.loads(path.read_text())) for path in sorted(HERE.glob("*.toml"))]
    for path, table in files:
        if set(table) != {"order", "rule"} or not isinstance(table["order"], int):
            raise ValueError(f"{path.name}: a file of rules has the keys order and rule")
    rules = [
        make_rule(entry, path.name)
        for path, table in sorted(files, key=lambda file: int(file[1]["order"]))
        for entry in table["rule"]
    ]
    if len(rules) > RULES_MOST:
        raise ValueError(f"{len(rules)} rules: at most {RULES_MOST}")
    return tuple(rules)


def make_rule(entry: Mapping[str, Any], where: str) -> Rule:
    """A rule from its table. Raises ValueError."""
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"{where}: a rule has no key {sorted(unknown)[0]}")
    why = entry.get("why")
    if not isinstance(why, str) or not why:
        raise ValueError(f"{where}: a rule has no why")
    lists = {key: entry[key] for key in (*_PATTERNS, FLAGS, WITHOUT_FLAGS) if key in entry}
    for key, values in lists.items():
        if not isinstance(values, list) or not values or not all(isinstance(v, str) for v in values):
            raise ValueError(f"{where}: {key} of {why!r} is not a list of words")
    switches = {key: entry[key] for key in SWITCHES if key in entry}
    if not all(isinstance(value, bool) for value in switches.values()):
        raise ValueError(f"{where}: {why!r} has a switch that is neither true nor false")
    return Rule(
        why=why,
        patterns={key: tuple(lists[key]) for key in _PATTERNS if key in lists},
        flags=frozenset(lists.get(FLAGS, ())),
        without_flags=frozenset(lists.get(WITHOUT_FLAGS, ())),
        switches=switches,
    )
