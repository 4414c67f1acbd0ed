# SPDX-License-Identifier: BSD-2-Clause
"""Report a sweep: read its runs' figures, compare configurations, write text, page, tables and pictures.

The sweep may be running, interrupted or copied from elsewhere: what there is of it is reported.
"""

from __future__ import annotations

from pathlib import Path

from analysis.discovery import find_parts
from analysis.errors import OptionError
from analysis.figures import sweep as sweep_figures
from analysis.measures.sweep.data import SweepData, load_data
from analysis.measures.sweep.goal import short_of_goal
from analysis.render import html, markdown, text
from analysis.render.document import Document
from analysis.render.output import Made, Output, SweepSource, make_all, write_files
from analysis.rundir.run import clean
from analysis.sections.sweep.document import make_document
from analysis.sections.sweep.files import as_csv, as_json
from analysis.study import NAMED as STUDY_NAMED
from analysis.study import make_study, with_sweep

FILES = ("sweep.txt", "sweep.html", "sweep.csv", "sweep.md", "figures.json")
IN_STUDY = ("sweep.txt", "sweep.html", "sweep.md")  # a study's own files hold these
NAMED = ("sweep.txt", "sweep.html", "sweep.png")  # files that the terminal names


def make_sweep_report(path: Path) -> str:
    """Write the report's files into the sweep directory; returns what the terminal shows."""
    data = load_data(path)
    document = make_document(data)
    outputs: list[Output[SweepSource]] = find_parts(sweep_figures, "OUTPUT", Output)
    title = document.title.removeprefix("Seekmeter ").capitalize()
    made = make_all(outputs, SweepSource(data, title, document.banners))
    files = _files(data, document, made)
    stale = [*FILES, *(name for output in outputs for name in output.names)]
    named = NAMED
    if (study := make_study(data.sweep, data.frame)) is not None:
        drawings = [drawing for one in made for drawing in one.drawings]
        document, study_files = with_sweep(study, document, drawings, _pictures(made))
        files = {name: content for name, content in files.items() if name not in IN_STUDY} | study_files
        stale, named = [*stale, *study.names], STUDY_NAMED
    write_files(data.sweep.open_path, files, stale)
    return text.essence(document, [path / name for name in named if name in files])


def _files(data: SweepData, document: Document, made: list[Made]) -> dict[str, bytes]:
    """All files of the report."""
    files = {
        "sweep.txt": text.encoded(text.render(document)),
        "sweep.html": b"",  # it names all others: below
        "sweep.csv": as_csv(data).encode("utf-8", "backslashreplace"),
        "sweep.md": text.encoded(markdown.render(document, _pictures(made))),
        "figures.json": as_json(data).encode("ascii"),
    }
    for one in made:
        files |= one.files
    drawings = [drawing for one in made for drawing in one.drawings]
    page = html.render(document, drawings, list(files), "the sweep's directory")
    files["sweep.html"] = page.encode("utf-8", "backslashreplace")
    return files


def _pictures(made: list[Made]) -> dict[str, str]:
    """The PNG pictures with their captions."""
    return {
        name: drawing.caption
        for one in made
        for drawing in one.drawings
        for name in one.files
        if name.endswith(".png")
    }


def sweep_goal(path: Path, percent: str) -> tuple[str, int]:
    """A line for each configuration that is less certain than the goal, and 1; 0 if all are as certain.

    percent: of the mean, the largest 95 % half-width; "": the sweep's own GOAL. Raises OptionError.
    """
    data = load_data(path)
    try:
        goal_pct = float(percent) if percent else data.sweep.goal_pct or 0.0
    except ValueError:
        goal_pct = 0.0
    if not 0 < goal_pct < 100:
        raise OptionError(
            f"the goal {clean(percent)!r} is not a percentage between 0 and 100"
            if percent
            else f"{clean(path)} has no goal of its own; give a percentage"
        )
    short = short_of_goal(data, goal_pct)
    return "".join(f"{one.id} {one.label}: {why}\n" for one, why in short), int(bool(short))
