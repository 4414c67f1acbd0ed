# SPDX-License-Identifier: BSD-2-Clause
"""What a module of this folder declares: SECTIONS, the sections of the comparison, found by the folder.

A new section is one module with SECTIONS and a test; no list names it. Keys are those of a single run's
sections where both show the same subject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.measures.compare.compared_run import Compared
from analysis.render.document import Section

Runs = Sequence[Compared]


@dataclass(frozen=True)
class Tags:
    """The tags that tell the runs apart, one a run, as headings of columns."""

    full: Sequence[str]
    short: Sequence[str]  # empty where all tags together are too long: the letters stand alone
    stacked: Sequence[str]  # a word a line


@dataclass(frozen=True)
class CompareSpec:
    """One heading of the comparison. Sections that show something are marked if a collector lost rows."""

    key: str  # stays the same when the title changes
    title: str
    order: int  # ascending down the report
    build: Callable[[Runs, Tags], Sequence[Section]]
    essential: bool = False  # shown on the terminal too
    collectors: tuple[str, ...] = ()  # where the section's numbers come from
