# SPDX-License-Identifier: BSD-2-Clause
"""Colour and marker of each subject, the same in all pictures of a study; markers serve in greyscale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.measures.study.results import StudyResults

COLORS = ("#0B5E9E", "#D55E00", "#1B7A5A", "#4B2A84", "#B07A00", "#A0195E", "#2F6F6F", "#5F5F5F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


INSIDE = "in a virtual machine"  # behind the name of a subject whose times do not compare with others


@dataclass(frozen=True)
class Mark:
    """How one subject is drawn."""

    color: str
    marker: str


def subject_marks(results: StudyResults) -> dict[str, Mark]:
    """Marks by subject, in the order of the tables."""
    subjects: Sequence[str] = list(dict.fromkeys(s for table in results.tables for s in table.subjects))
    return {
        subject: Mark(COLORS[i % len(COLORS)], MARKERS[(i + i // len(COLORS)) % len(MARKERS)])
        for i, subject in enumerate(subjects)
    }


def file_names(kind: str, number: int) -> tuple[str, str]:
    """PNG and SVG of the number-th table of the study, from 1."""
    return f"study-{number:02}-{kind}.png", f"study-{number:02}-{kind}.svg"


def all_names(kind: str, most: int = 60) -> list[str]:
    """Every name that file_names() may give: those that are not made anew are removed."""
    return [name for number in range(1, most + 1) for name in file_names(kind, number)]
