# SPDX-License-Identifier: BSD-2-Clause
"""The answer as the head of report.html: the same facts as the text, none cut."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup, escape

from analysis import units
from analysis.answer.answer import Answer
from analysis.answer.evidence import evidence_texts
from analysis.answer.finding_text import outlook, what_text
from analysis.answer.text import nothing_text, tail_entries
from analysis.answer.wrap import NO_BREAK, joined
from analysis.render.templates import templates
from analysis.rundir.run import clean

TEMPLATE = "answer.html.j2"


def _joined(text: str) -> Markup:
    """The text of a run, cleaned and escaped; a number and its unit stay in one line."""
    return Markup(escape(joined(clean(text))).replace(NO_BREAK, Markup("&nbsp;")))


def render(answer: Answer) -> str:
    """HTML in which all text of the run is escaped."""
    environment = templates(Path(__file__).parent)
    environment.filters |= {"clean": _joined, "seconds": units.seconds}
    return environment.get_template(TEMPLATE).render(
        answer=answer,
        evidence_texts=evidence_texts,
        nothing=nothing_text(answer),
        outlook=outlook,
        what_text=what_text,
        tail=tail_entries(answer),
    )
