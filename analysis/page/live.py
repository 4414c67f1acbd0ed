# SPDX-License-Identifier: BSD-2-Clause
"""The live part of a page as HTML: the packed runs, and the scripts that draw them, which fetch nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from analysis.page.columns import in_script
from analysis.page.packed import PackedRun
from analysis.render.templates import templates

ROOM = Path(__file__).parent
FIRST, LAST = ("units.js", "decode.js", "state.js"), "main.js"  # the other scripts stand between, by name


@dataclass(frozen=True)
class Live:
    """What a page needs of its live part: HTML, and what its Content-Security-Policy allows."""

    html: Markup
    late: Markup  # single requests, most of the bytes: at the end of the page, after what is drawn first
    style: Markup
    script_hash: str


def script() -> str:
    """All scripts as one, in one function scope."""
    folder = ROOM / "scripts"
    others = sorted(path.name for path in folder.glob("*.js") if path.name not in (*FIRST, LAST))
    texts = [(folder / name).read_text("utf-8") for name in (*FIRST, *others, LAST)]
    return '(() => {\n"use strict";\n' + "".join(texts) + "})();\n"


def _part(name: str, part: bytes) -> Markup:
    """A binary part, which the scripts find by its name."""
    return Markup(
        f'<script type="text/plain" id="{name}">{base64.b64encode(part).decode("ascii")}</script>\n'
    )


def render(runs: Sequence[PackedRun]) -> Live:
    """The live part. All text of the runs is in JSON that the scripts show as text, never as markup."""
    text = script()
    packed: list[Markup] = []
    late: list[Markup] = []
    for i, run in enumerate(runs):
        rows = run.header["rows"]
        for j, part in enumerate(run.parts):
            is_late = rows is not None and rows["t_us"]["part"] == j
            (late if is_late else packed).append(_part(f"part-{i}-{j}", part))
    html = (
        templates(ROOM)
        .get_template("live.html.j2")
        .render(
            data=Markup(in_script({"runs": [run.header for run in runs]})), packed=packed, script=Markup(text)
        )
    )
    digest = hashlib.sha256(text.encode()).digest()
    style = "".join(path.read_text("utf-8") for path in sorted(ROOM.glob("*.css")))
    return Live(Markup(html), Markup("").join(late), Markup(style), base64.b64encode(digest).decode("ascii"))
