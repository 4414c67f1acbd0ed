# SPDX-License-Identifier: BSD-2-Clause
"""Warnings and gaps: missing collectors, why numbers are marked, the session's warnings, missing tables."""

from __future__ import annotations

from analysis.measures.app import unseen
from analysis.measures.results import Results
from analysis.render.document import Section
from analysis.rundir.run import Run
from analysis.sections.marks import marked_losses
from analysis.sections.missing import missing
from analysis.sections.spec import SectionSpec
from analysis.tables.load import Tables


def build_warnings(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One sentence a warning or gap; "none" without any."""
    section = Section()
    section.notes = warning_words(run, results) or ["none"]
    section.quiet = "" if warning_words(run, results) else "no warnings"
    return [section]


def warning_words(run: Run, results: Results) -> list[str]:
    """All warnings and gaps; empty only if no number is marked."""
    is_gap = any(
        sentence.startswith("losses.json") for sentence in run.missing
    )  # the file itself could not be read
    marked = [] if is_gap and not run.losses else marked_losses(run)
    bounds = unseen.sentence(results.app.uncounted)
    return [*missing(run), *marked, *bounds, *run.str_list("warnings"), *run.missing]


SECTIONS = (SectionSpec("warnings", "Warnings and gaps", 3200, build_warnings, essential=True),)
