# SPDX-License-Identifier: BSD-2-Clause
"""The gallery's page of a study: Markdown with its tables, and pictures small enough for a repository."""

from __future__ import annotations

import re
from pathlib import Path

from analysis import front
from analysis.errors import OptionError, ReportError
from analysis.measures.sweep.data import load_data
from analysis.render import markdown, text
from analysis.render.output import write_files
from analysis.rundir.folder import new_folder, open_run_folder
from analysis.rundir.run import clean
from analysis.sections.study.closing import build_closing
from analysis.sections.study.head import build_head
from analysis.study import StudyReport, make_study

DPI = 72  # of the pictures


def make_gallery(path: Path, out: Path) -> str:
    """Write the page, named as the study, and its pictures into `out`; returns what to print.

    `out` is made if it is missing. Raises OptionError if the directory is not a study's sweep.
    """
    data = load_data(path)
    report = make_study(data.sweep, data.frame, DPI)
    if report is None:
        raise OptionError(
            f"{clean(path)} is the sweep of no study; name one that `{front.command('study')}` made"
        )
    name = re.sub(r"[^A-Za-z0-9]", "", report.every[0].study.name) or "study"
    pictures = {_file(file, name): content for file, content in report.files.items() if file.endswith(".png")}
    files = {f"{name}.md": text.encoded(_page(report, name)), **pictures}
    try:
        folder = open_run_folder(out) if out.exists() else new_folder(out)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReportError(f"{clean(out)} can't be made ({reason}); name another directory") from None
    write_files(folder.open_path, files)
    return "".join(f"{clean(out / file)}\n" for file in files)


def _page(report: StudyReport, name: str) -> str:
    """What it comes to first; then the tables, each with its picture; then agreement and what is missing."""
    first = report.every[0]
    lines = [f"# {markdown.escaped(first.study.title)}", ""]
    lines += [f"> **{markdown.escaped(banner)}**\n" for banner in report.document.banners]
    lines += [
        f"Made by `make study NAME={name} SCALE={markdown.escaped(first.study.scale)}`; the source is"
        f" {markdown.escaped(first.study.source)} in [docs/SOURCES.md](../SOURCES.md). Orders and ratios"
        " compare"
        " with the paper's; values do not, as the machine is another one.",
        "",
    ]
    lines += markdown.section_lines(build_head(first))
    lines += markdown.section_lines(build_closing(first))
    for section in report.document.sections[1:-1]:
        pictures = report.pictures.get(section.key, {})
        lines += markdown.section_lines(section)
        lines += markdown.picture_lines({_file(png, name): caption for png, caption in pictures.items()})
    return "\n".join(lines).rstrip("\n") + "\n"


def _file(png: str, name: str) -> str:
    """The picture's file name in the gallery: with the study's name."""
    return png.replace("study-", f"{name}-", 1)
