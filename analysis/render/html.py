# SPDX-License-Identifier: BSD-2-Clause
"""The document as one self-contained HTML page: no network, the pictures embedded."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from analysis.page.live import Live
from analysis.render.document import Document
from analysis.render.output import Drawing
from analysis.render.templates import templates

TEMPLATE = "report.html.j2"


def render(
    document: Document,
    drawings: Sequence[Drawing],
    files: Sequence[str],
    directory: str,
    live: Live | None = None,
) -> str:
    """The page. files: names of all files in `directory`, which is named by its role. live: drawn by scripts.

    All text from the run is escaped. A drawing is embedded as an image, in which nothing can run, unless it
    is inline.
    """
    environment = templates(Path(__file__).parent)
    pictures: dict[str, list[tuple[str, str, str]]] = {"": []}
    for drawing in drawings:
        picture = (
            drawing.caption,
            Markup(drawing.svg.decode()) if drawing.inline else "",
            base64.b64encode(drawing.svg).decode("ascii"),
        )
        pictures.setdefault(drawing.section, []).append(picture)
    return environment.get_template(TEMPLATE).render(
        document=document,
        answer=Markup(document.answer_page),
        pictures=pictures,
        files=files,
        directory=directory,
        live=live,
    )
