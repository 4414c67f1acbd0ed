# SPDX-License-Identifier: BSD-2-Clause
"""Verdicts: whether each other side is better or worse than the first, figure by figure, and overall."""

from __future__ import annotations

from analysis.measures.compare.verdicts import judge
from analysis.measures.compare.verdicts_of_runs import pairs_of_runs
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.verdict_tables import fill


def build_verdicts(runs: Runs, tags: Tags) -> list[Section]:
    """A verdict for each figure of each side against the first side."""
    section = Section()
    fill(section, judge(pairs_of_runs(runs)))
    return [section]


SECTIONS = (CompareSpec("verdicts", "Verdicts", 150, build_verdicts, essential=True),)
