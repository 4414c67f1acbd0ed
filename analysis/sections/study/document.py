# SPDX-License-Identifier: BSD-2-Clause
"""The content of a study's report: head, tables in the source's shapes, agreement, closing paragraph."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from analysis.measures.study.published import TableSpec
from analysis.measures.study.results import StudyResults, section_key
from analysis.render.document import Document, Section
from analysis.sections.study.agreement import build_agreement, build_disagreements, build_evidence
from analysis.sections.study.closing import build_closing
from analysis.sections.study.head import build_head
from analysis.sections.study.missing import build_missing
from analysis.sections.study.shape import find_shapes

UNSHOWN = ("FS", "OUT", "NAME")  # words that say nothing of the workload


def make_sections(results: StudyResults) -> list[Section]:
    """The sections of one machine, in order; the closing paragraph last."""
    shapes = find_shapes()
    tables = [shapes[table.spec.shape].build(table, results) for table in results.tables]
    parts = {part.name: part.title for part in results.sweep.parts}
    shown: set[str] = set()
    for number, (section, table) in enumerate(zip(tables, results.tables, strict=True), 1):
        section.key = section_key(number)
        facts = [("part", parts.get(table.spec.part, "")), ("run as", shared_words(results, table.spec))]
        section.facts[:0] = [(name, value) for name, value in facts if value]
        if section.definition in shown:
            section.definition = ""  # the first table of the shape has it
        shown.add(section.definition)
    return [
        build_head(results),
        *tables,
        build_agreement(results),
        build_disagreements(results),
        build_evidence(results),
        build_missing(results),
        build_closing(results),
    ]


def shared_words(results: StudyResults, spec: TableSpec) -> str:
    """The words that all configurations of the table share: what ran at this scale."""
    words = [
        {**one.words, **one.axes}
        for one in results.sweep.configurations
        if one.part == spec.part and all(one.words.get(key) == word for key, word in spec.where.items())
    ]
    shared = (
        {key: word for key, word in words[0].items() if all(one.get(key) == word for one in words)}
        if words
        else {}
    )
    return " ".join(f"{key}={shlex.quote(word)}" for key, word in shared.items() if key not in UNSHOWN)


def make_document(every: Sequence[StudyResults]) -> Document:
    """Title, banners and sections; with several machines each has its own sections, never averaged."""
    first = every[0]
    study = first.study
    banners = list(study.problems)
    if first.sweep.state not in ("complete",):
        banners.append(f"the study is {first.sweep.state}: tables hold the runs that are done")
    sections: list[Section] = []
    for results in every:
        made = make_sections(results)
        if len(every) > 1:
            machine = results.sweep.machines.get(results.machine)
            name = machine.hostname if machine is not None and machine.hostname else results.machine
            for section in made:
                section.title = f"{name}: {section.title}"
                if results is not first:
                    section.key = ""  # the pictures are of the first machine
        sections += made
    if len(every) > 1:
        banners.append("several machines: each has tables of its own; figures of machines are never averaged")
    return Document(f"Seekmeter: study {study.name}: {study.title}", banners, sections)
