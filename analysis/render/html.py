# SPDX-License-Identifier: BSD-2-Clause
"""The document as one self-contained HTML page: no network, no scripts, the picture embedded."""

from __future__ import annotations

import base64
from collections.abc import Collection
from pathlib import Path

import jinja2
from markupsafe import Markup

from analysis.render.document import Document

TEMPLATE = "report.html.j2"


def render(
    document: Document,
    pictures: list[tuple[str, bytes]],
    files: list[str],
    where: str,
    inline: Collection[str] = (),
) -> str:
    """The page. pictures: what each shows, in words, and its SVG; files lie in `where`.

    Everything from the run is escaped; a picture is an image, so nothing in it can run. Those whose words are
    in `inline` are part of the page, so that their tooltips show: only for SVG of our own making.
    """
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    embedded = [
        (words, Markup(svg.decode()) if words in inline else "", base64.b64encode(svg).decode("ascii"))
        for words, svg in pictures
    ]
    return environment.get_template(TEMPLATE).render(
        document=document, pictures=embedded, files=files, where=where
    )
