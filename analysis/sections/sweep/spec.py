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
