# SPDX-License-Identifier: BSD-2-Clause
"""Warnings and gaps of the compared runs, a letter before each."""

from __future__ import annotations

from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.warnings import warning_words


def build_warnings(runs: Runs, tags: Tags) -> list[Section]:
    """One sentence a warning or gap, with its run's letter; "none" without any."""
    section = Section()
    for one in runs:
        section.notes += [f"{one.letter}: {sentence}" for sentence in warning_words(one.run, one.results)]
    if not section.notes:
        section.notes = ["none"]
    return [section]


SECTIONS = (CompareSpec("warnings", "Warnings and gaps", 1400, build_warnings, essential=True),)
