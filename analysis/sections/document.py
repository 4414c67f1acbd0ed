# SPDX-License-Identifier: BSD-2-Clause
"""The content of a report: the sections of all modules of this folder, in order."""

from __future__ import annotations

from functools import cache

from analysis import sections as folder
from analysis.discovery import find_listed
from analysis.measures.results import Results
from analysis.render import titles
from analysis.render.document import Document, Section
from analysis.rundir.run import Run
from analysis.sections.banners import make_banners
from analysis.sections.disk_banners import disk_banners
from analysis.sections.marks import mark
from analysis.sections.owner_labels import all_requests_note, owner_banners
from analysis.sections.spec import SectionSpec
from analysis.sections.stack_banners import stack_banners
from analysis.tables.load import Tables


@cache
def find_sections() -> tuple[SectionSpec, ...]:
    """The specs of all modules of this folder, in the report's order."""
    return tuple(find_listed(folder, "SECTIONS", SectionSpec))


def run_banners(run: Run, tables: Tables, results: Results) -> list[str]:
    """The warnings above one run's report."""
    return [
        *disk_banners(run, results),
        *stack_banners(results),
        *owner_banners(results),
        *make_banners(run, tables.truncated_bytes),
    ]


def make_document(run: Run, tables: Tables, results: Results) -> Document:
    """Title, banners and sections of one run's report."""
    return Document(
        title=titles.headline(run, results.window.work_s),
        banners=run_banners(run, tables, results),
        sections=[
            _finished(spec, section, run, results)
            for spec in find_sections()
            for section in spec.build(run, tables, results)
        ],
    )


WITHOUT_DISKS = "no disk below the volume was recorded: there are bios, and no requests"
OF_DISKS = "of the requests to the disks below the volumes, whatever they serve"


def _of_disks(section: Section, results: Results) -> Section:
    """The section of a run on volumes: whose requests it counts, or why there are none."""
    if results.stack is not None and not results.stack.stack.leaves:
        return Section(section.title, absent=WITHOUT_DISKS, essential=section.essential, key=section.key)
    section.notes[:0] = [OF_DISKS]
    return section


def _finished(spec: SectionSpec, section: Section, run: Run, results: Results) -> Section:
    """The section with what its spec states: key, title, mark, and a note if it counts all requests."""
    section.key = spec.key
    section.title = section.title or spec.title
    section.essential = section.essential or spec.essential
    if spec.of_disks and results.is_stacked:
        section = _of_disks(section, results)
    if not section.absent:
        section.mark = mark(run, *spec.collectors)
        if spec.counts_all:
            section.notes[:0] = all_requests_note(results)
    return section
