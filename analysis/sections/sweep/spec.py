# SPDX-License-Identifier: BSD-2-Clause
"""What a module of this folder declares: SECTIONS, the sections of a sweep's report, found by the folder.

A new section is one module with SECTIONS and a test; no list names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.measures.sweep.data import SweepData
from analysis.render.document import Section


@dataclass(frozen=True)
class SweepSpec:
    """One heading of the report; one that has nothing to show says why (Section.absent)."""

    key: str  # stays the same when the title changes
    title: str
    order: int  # ascending down the report
    build: Callable[[SweepData], Sequence[Section]]
    essential: bool = False  # shown on the terminal too


def defined_once(sections: list[Section], definition: str, absent: str) -> list[Section]:
    """A section a group, the definition below the last one; without a group one that says why."""
    if not sections:
        return [Section(absent=absent)]
    sections[-1].definition = definition
    return sections
