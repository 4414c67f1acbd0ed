# SPDX-License-Identifier: BSD-2-Clause
"""A study's report: its tables beside the published ones, the closing paragraph, then the sweep's own.

Its text, page and Markdown stand in place of the sweep's; the other files of the sweep stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.discovery import find_parts
from analysis.figures import study as study_figures
from analysis.measures.study.results import StudyResults, measure_study
from analysis.render import html, markdown, text
from analysis.render.document import Document
from analysis.render.output import Drawing, Output, StudySource, make_all
from analysis.rundir.sweep_dir import Sweep
from analysis.sections.study.document import make_document
from analysis.sections.study.export import cells_csv, pairs_csv
from analysis.sections.study.shape import needs

FILES = ("study.txt", "study.html", "study.md", "study.csv", "study-pairs.csv")
NAMED = ("study.txt", "study.html", "study.md")  # files that the terminal names


@dataclass(frozen=True)
class StudyReport:
    """The study's part of a sweep's report, by machine in `every`."""

    every: Sequence[StudyResults]
    document: Document
    files: Mapping[str, bytes]  # tables and pictures
    drawings: Sequence[Drawing]
    pictures: Mapping[str, Mapping[str, str]]  # captions by PNG, by the key of their section
    names: Sequence[str]  # every file that a study's report may have: those not made anew are removed


def make_study(sweep: Sweep, figures: pd.DataFrame, dpi: float | None = None) -> StudyReport | None:
    """The study's sections, tables and pictures; None: the sweep is no study's. dpi: of PNGs."""
    every = measure_study(sweep, figures, needs())
    if not every:
        return None
    document = make_document(every)
    outputs: list[Output[StudySource]] = find_parts(study_figures, "OUTPUT", Output)
    made = make_all(outputs, StudySource(every[0], document.banners, dpi))
    files = {"study.csv": text.encoded(cells_csv(every)), "study-pairs.csv": text.encoded(pairs_csv(every))}
    for one in made:
        files |= one.files
    drawings = [drawing for one in made for drawing in one.drawings]
    pngs = [name for one in made for name in one.files if name.endswith(".png")]
    pictures: dict[str, dict[str, str]] = {}
    for drawing, png in zip(drawings, pngs, strict=True):
        pictures.setdefault(drawing.section, {})[png] = drawing.caption
    return StudyReport(
        every=every,
        document=document,
        files=files,
        drawings=drawings,
        pictures=pictures,
        names=[*FILES, *(name for output in outputs for name in output.names)],
    )


def with_sweep(
    study: StudyReport, sweep: Document, drawings: Sequence[Drawing], pictures: Mapping[str, str]
) -> tuple[Document, dict[str, bytes]]:
    """The study's sections, then the sweep's, and the files of both together.

    drawings, pictures: of the sweep's own report.
    """
    own = [replace(section, title=f"Sweep: {section.title}", essential=False) for section in sweep.sections]
    below = own[0].key if own else ""
    document = Document(
        study.document.title,
        list(dict.fromkeys([*study.document.banners, *sweep.banners])),
        [*study.document.sections, *own],
    )
    files = {
        "study.txt": text.encoded(text.render(document)),
        "study.html": b"",  # it names all others: below
        "study.md": text.encoded(markdown.render(document, None, {**study.pictures, below: pictures})),
        **study.files,
    }
    every = [*study.drawings, *(replace(drawing, section=below) for drawing in drawings)]
    page = html.render(document, every, list(files), "the sweep's directory")
    files["study.html"] = page.encode("utf-8", "backslashreplace")
    return document, files
