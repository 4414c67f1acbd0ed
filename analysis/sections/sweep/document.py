# SPDX-License-Identifier: BSD-2-Clause
"""The content of a sweep's report: the sections of all modules of this folder, in order."""

from __future__ import annotations

from functools import cache

from analysis.discovery import find_listed
from analysis.measures.sweep.data import SweepData
from analysis.render.document import Document, Section
from analysis.sections import sweep as folder
from analysis.sections.sweep.banners import make_banners
from analysis.sections.sweep.spec import SweepSpec


@cache
def find_sections() -> tuple[SweepSpec, ...]:
    """The specs of all modules of this folder, in the report's order."""
    return tuple(find_listed(folder, "SECTIONS", SweepSpec))


def make_document(data: SweepData) -> Document:
    """Title, banners and sections of the report."""
    return Document(
        title=f"Seekmeter sweep: {data.sweep.name}",
        banners=make_banners(data),
        sections=[_finished(spec, section) for spec in find_sections() for section in spec.build(data)],
    )


def _finished(spec: SweepSpec, section: Section) -> Section:
    """The section with what its spec states: key, title."""
    section.key = spec.key
    section.title = section.title or spec.title
    section.essential = section.essential or spec.essential
    return section
