# SPDX-License-Identifier: BSD-2-Clause
"""The answer of a comparison as the head of compare.html: the same facts as the text, none cut."""

from __future__ import annotations

from pathlib import Path

from analysis.answer.compared.answer import CompareAnswer
from analysis.answer.compared.text import MOST_NAMED, WHOLE, apart_of, findings_seconds, sentence
from analysis.render.templates import templates
from analysis.rundir.run import clean
from analysis.sections.compare.shown import interval_text, shown_rows

TEMPLATE = "answer.html.j2"


def render(answer: CompareAnswer) -> str:
    """HTML in which all text of the runs is escaped."""
    environment = templates(Path(__file__).parent)
    environment.filters["clean"] = clean
    time = answer.time
    shown = shown_rows(time, len(time.causes))
    named = shown_rows(time, MOST_NAMED)
    others = list(range(1, len(time.known))) if time.is_compared else []
    return environment.get_template(TEMPLATE).render(
        answer=answer,
        time=time,
        shown=shown,
        others=others,
        sentences=[sentence(answer, named, k) for k in others],
        interval=lambda row, k: interval_text(apart_of(answer, row, k)),
        seconds=findings_seconds,
        whole=WHOLE,
    )
