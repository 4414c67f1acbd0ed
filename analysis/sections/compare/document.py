# SPDX-License-Identifier: BSD-2-Clause
"""The content of a comparison: the sections of all modules of this folder, in order."""

from __future__ import annotations

from functools import cache

from analysis.discovery import find_listed
from analysis.render.document import Document, Section
from analysis.sections import compare as folder
from analysis.sections.compare.banners import make_banners
from analysis.sections.compare.facts import shared_name, stacked, tags
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import marks

HEADINGS = 38  # characters of tags in a table's heading, of all runs together


@cache
def find_sections() -> tuple[CompareSpec, ...]:
    """The specs of all modules of this folder, in the report's order."""
    return tuple(find_listed(folder, "SECTIONS", CompareSpec))


def make_document(runs: Runs) -> Document:
    """Title, banners and sections of the comparison of these runs."""
    full = tags(runs)
    is_room = max(len(tag) for tag in full) <= HEADINGS // len(runs)
    named = Tags(full, full if is_room else [""] * len(runs), stacked(full))
    shared = shared_name(runs)
    return Document(
        title=f"Seekmeter: {len(runs)} runs compared" + (f": {shared}" if shared else ""),
        banners=make_banners(runs),
        sections=[
            _finished(spec, section, runs) for spec in find_sections() for section in spec.build(runs, named)
        ],
    )


def _finished(spec: CompareSpec, section: Section, runs: Runs) -> Section:
    """The section with what its spec states: key, title, mark."""
    section.key = spec.key
    section.title = section.title or spec.title
    section.essential = section.essential or spec.essential
    if not section.absent:
        section.mark = marks(runs, *spec.collectors)
    return section
