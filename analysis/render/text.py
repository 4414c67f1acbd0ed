# SPDX-License-Identifier: BSD-2-Clause
"""The document as 80-column text (UTF-8 in a file), to be pasted into a mail: a command as it was typed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analysis.render.document import Document, Section, Table
from analysis.visible import clean

WIDTH = 80


def encoded(text: str) -> bytes:
    """As it stands in a file; half a surrogate pair, which is no character, as \\u.... ."""
    return text.encode("utf-8", "backslashreplace")


def wrap(text: str, indent: str = "", hang: str | None = None) -> list[str]:
    """Fold at 80 columns; a word longer than a line is cut into lines, nothing is dropped."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hang is None else hang,
        break_on_hyphens=False,
    ) or [""]


def _fold(cell: str, width: int) -> list[str]:
    """The cell in pieces of at most `width`, at spaces or after "()" where there are any, then indented."""
    if len(cell) <= width:
        return [cell]
    lead = " " * (len(cell) - len(cell.lstrip()))
    pieces, line = [], lead
    for word in re.findall(r"\s*\S+?\(\)|\s*\S+", cell.strip()):
        if len(line) + len(word) > width and line.strip():
            pieces.append(line)
            line = lead + "  "
            word = word.strip()
        while len(line) + len(word) > width:
            cut = width - len(line)
            pieces.append(line + word[:cut])
            line, word = lead + "  ", word[cut:]
        line += word
    return [*pieces, line]


def _width(cell: str) -> int:
    return max(len(line) for line in cell.split("\n"))


def _parts(table: Table) -> list[Table]:
    """The table, or as many parts of it as it takes to fit, each with the left columns again."""
    cells = [table.titles, *table.rows]
    left = [i for i, head in enumerate(table.heads) if head.startswith("<")]
    groups: list[list[int]] = []
    for i, head in enumerate(table.heads):
        if i not in left:
            if head.startswith("&") and groups:
                groups[-1].append(i)
            else:
                groups.append([i])
    if not left or not groups:
        return [table]

    def width(columns: list[int]) -> int:
        """With single blanks between, the left columns folded as far as is well."""
        widest = {i: max(_width(row[i]) for row in cells) for i in columns}
        return 1 + sum(1 + (min(w, table.least_left) if i in left else w) for i, w in widest.items())

    parts = [list(left)]
    for group in groups:
        if len(parts[-1]) > len(left) and width([*parts[-1], *group]) > WIDTH:
            parts.append(list(left))
        parts[-1] += group
    return [
        Table([table.heads[i] for i in part], [[row[i] for i in part] for row in table.rows])
        for part in parts
    ]


def table_lines(table: Table) -> list[str]:
    """The table's lines; what is too wide is continued below."""
    parts = [_part_lines(part) for part in _parts(table)]
    lines = parts[0]
    for part in parts[1:]:
        lines += ["", *part]
    return lines


def _part_lines(table: Table) -> list[str]:
    """Columns as wide as their widest cell; if too much, gaps and left-set columns give way."""
    left = [head.startswith("<") for head in table.heads]
    rows = [table.titles, *table.rows]
    widths = [max(_width(row[i]) for row in rows) for i in range(len(left))]
    over = sum(widths) + 2 * (len(widths) - 1) + 2 - WIDTH
    gap = "  "
    if over > 0:
        gap = " "
        over -= len(widths) - 1
    while over > 0:
        at = max((i for i in range(len(widths)) if left[i]), key=lambda i: widths[i], default=None)
        if at is None or widths[at] <= 8:
            break
        take = min(over, widths[at] - 8)
        widths[at] -= take
        over -= take
    lines = []
    for row in rows:
        pieces = []
        for cell, w, is_left in zip(row, widths, left, strict=True):
            stacked = cell.split("\n")
            pieces.append([part for line in stacked for part in _fold(line, w)] if is_left else stacked)
        # a folded name goes on above; the numbers stand on its last line
        height = max(len(p) for p in pieces)
        for i in range(height):
            cells = []
            for piece, w, is_left in zip(pieces, widths, left, strict=True):
                at = i if is_left else i - (height - len(piece))
                word = piece[at] if 0 <= at < len(piece) else ""
                cells.append(word.ljust(w) if is_left else word.rjust(w))
            lines.append(("  " + gap.join(cells)).rstrip())
    return lines


def fact_lines(facts: list[tuple[str, str]]) -> list[str]:
    """Names and values, folded."""
    width = max((len(name) for name, _ in facts), default=0)
    lines: list[str] = []
    for name, value in facts:
        lines += wrap(value, f"  {name.ljust(width)}  ", " " * (width + 4))
    return lines


def section_lines(section: Section) -> list[str]:
    """One section as lines."""
    title = f"{section.title}{' ' + section.mark if section.mark else ''}"
    lines = ["", f"{title.upper()} {'-' * (WIDTH - len(title) - 1)}"]
    if section.absent:
        lines += wrap(f"not available: {section.absent}", "  ")
    lines += fact_lines(section.facts)
    for i, table in enumerate(section.tables):
        if i or section.facts:
            lines.append("")
        lines += table_lines(table)
    for note in section.notes:
        lines += wrap(note, "  - ", "    ")
    if section.definition and not section.absent:
        lines += wrap(section.definition, "  [", "   ")
        lines[-1] += "]" if len(lines[-1]) < WIDTH else "\n   ]"
    return lines


def render(document: Document) -> str:
    """The whole text, lines of at most 80 columns."""
    lines = wrap(document.title)
    lines += ["=" * min(len(line), WIDTH) for line in lines[-1:]]
    for banner in document.banners:
        lines += wrap(banner, "!! ", "!! ")
    for section in document.sections:
        lines += section_lines(section)
    return "\n".join(lines) + "\n"


def essence(document: Document, files: Sequence[Path]) -> str:
    """What the terminal shows: essential sections without definitions, and the paths of the files."""
    sections = [replace(s, definition="") for s in document.sections if s.essential]
    where = "".join(f"  {clean(path)}\n" for path in files)
    shown = render(replace(document, sections=sections))
    return f"{shown}\nall figures, their definitions, and the pictures:\n{where}"
