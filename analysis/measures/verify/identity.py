# SPDX-License-Identifier: BSD-2-Clause
"""Which finding of today's report a verdict is of: numbers, order and seconds change with the rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# A number that stands alone; loop8 and inode-17 are names.
_NUMBER = re.compile(r"(?<![\w/.:-])\d[\d.,]*(?![\w/:-])")


@dataclass(frozen=True)
class Named:
    """What names a finding."""

    kind: str
    what: str  # its sentence
    words: Mapping[str, str]  # of its remedy; empty: it has none


def subject(what: str) -> str:
    """A sentence without its numbers: The journal of # MB was full # times: # s of # s (# %)."""
    return _NUMBER.sub("#", what)


def is_same(one: Named, other: Named) -> bool:
    """Whether two sentences are of the same finding, whatever its numbers are."""
    return one.kind == other.kind and subject(one.what) == subject(other.what)


def find_same(tested: Named, now: Sequence[Named]) -> int | None:
    """The index among the findings of now; None: it is not among them, or more than one may be it.

    The same sentence, else the same but for its numbers, else the same kind with the same remedy.
    """
    tests: tuple[Callable[[Named], bool], ...] = (
        lambda one: (one.kind, one.what) == (tested.kind, tested.what),
        lambda one: is_same(one, tested),
        lambda one: one.kind == tested.kind and bool(tested.words) and dict(one.words) == dict(tested.words),
    )
    for test in tests:
        found = [index for index, one in enumerate(now) if test(one)]
        if found:
            return found[0] if len(found) == 1 else None
    return None
