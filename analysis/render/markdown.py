# SPDX-License-Identifier: BSD-2-Clause
"""The document as Markdown: headings, tables and lists, for wikis and issues. Foreign text cannot format."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analysis.render.document import Document, Section, Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&!])")


def escaped(text: str) -> str:
    """The text on one line, with every character escaped that could format it."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table_lines(table: Table) -> list[str]:
    """The table: left columns aligned left, all others right."""
    titles = [escaped(title) for title in table.titles]
    rules = ["---" if head.startswith("<") else "--:" for head in table.heads]
    # the text indents a cell below another by blanks, which Markdown drops
    rows = [
        [("&emsp;" if cell.startswith("  ") else "") + escaped(cell) for cell in row] for row in table.rows
    ]
    return [f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows)]


def section_lines(section: Section, level: int = 2) -> list[str]:
    """The section's lines, a heading of this level first."""
    mark = f" {escaped(section.mark)}" if section.mark else ""
    lines = [f"{'#' * level} {escaped(section.title)}{mark}", ""]
    if section.absent:
        lines += [f"Not available: {escaped(section.absent)}", ""]
    if section.facts:
        facts = [
            f"{escaped(name)}: {escaped(value)}" if name else escaped(value) for name, value in section.facts
        ]
        lines += [*(f"- {fact}" for fact in facts), ""]
    for table in section.tables:
        lines += [*table_lines(table), ""]
    if section.notes:
        lines += [*(f"- {escaped(note)}" for note in section.notes), ""]
    if section.definition and not section.absent:
        lines += [f"<sub>{escaped(section.definition)}</sub>", ""]
    return lines


def picture_lines(pictures: Mapping[str, str]) -> list[str]:
    """Pictures by file name, with their captions."""
    return [line for name, caption in pictures.items() for line in (f"![{escaped(caption)}]({name})", "")]


def render(
    document: Document,
    pictures: Mapping[str, str] | None = None,
    of_sections: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The document. pictures: file names and captions, shown below the banners.

    of_sections: pictures by the key of the section below which they stand.
    """
    lines = [f"# {escaped(document.title)}", ""]
    for banner in document.banners:
        lines += [f"> **{escaped(banner)}**", ""]
    lines += picture_lines(pictures or {})
    for section in document.sections:
        lines += section_lines(section) + picture_lines((of_sections or {}).get(section.key, {}))
    return "\n".join(lines).rstrip("\n") + "\n"
