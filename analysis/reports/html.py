# SPDX-License-Identifier: BSD-2-Clause
"""The document as one self-contained HTML page: no network, no scripts, the picture embedded."""

from __future__ import annotations

import base64
from pathlib import Path

import jinja2

from analysis.reports.document import Document

TEMPLATE = "report.html.j2"


def render(document: Document, svg: bytes, distributions: bytes | None, files: list[str]) -> str:
    """The page. Everything from the run is escaped; the picture is an image, so nothing in it can run."""
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    picture = base64.b64encode(svg).decode("ascii")
    second = base64.b64encode(distributions or b"").decode("ascii")
    return environment.get_template(TEMPLATE).render(
        document=document, picture=picture, distributions=second, files=files
    )
