# SPDX-License-Identifier: BSD-2-Clause
"""The text of a run's report, for tests of what a workload's results look like there."""

from __future__ import annotations

from pathlib import Path

from analysis.measures.results import measure
from analysis.render import text
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables


def report_text(path: Path) -> str:
    """Return the text of a run's report, without pictures, with single blanks between words."""
    run = open_run(path)
    tables = load_tables(run)
    return " ".join(text.render(make_document(run, tables, measure(run, tables))).split())
