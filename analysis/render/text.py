# SPDX-License-Identifier: BSD-2-Clause
"""The document as UTF-8 text of at most 80 columns, to be pasted into a mail."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analysis.render.document import Document, Section, Table
from analysis.visible import clean

WIDTH = 80
DETAIL = "detail.txt"  # all sections of a run's report, none of them folded
LEAST_WIDTH = 8  # of a left column that is narrowed


def encoded(text: str) -> bytes:
    """The text as UTF-8. A lone surrogate, which UTF-8 cannot encode, becomes its escape."""
    return text.encode("utf-8", "backslashreplace")


def wrap(text: str, indent: str = "", hang: str | None = None) -> list[str]:
    """Fold at 80 columns; a longer word is cut, nothing is dropped. hang: indent of later lines."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hang is None else hang,
        break_on_hyphens=False,
    ) or [""]


def _fold(cell: str, width: int) -> list[str]:
    """The cell as lines of at most `width`, cut at spaces or after "()" where possible, then indented."""
    if len(cell) <= width:
        return [cell]
    # a deep indent is cut: two more spaces and a letter must fit
    lead = " " * min(len(cell) - len(cell.lstrip()), max(width - 4, 0))
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
    """The table in parts of at most 80 columns, each with the left columns again."""
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
        """Width of these columns with one space between, left columns folded to least_left."""
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
    """The table's lines; the columns that do not fit are continued below."""
    parts = [_part_lines(part) for part in _parts(table)]
    lines = parts[0]
    for part in parts[1:]:
        lines += ["", *part]
    return lines


def _part_lines(table: Table) -> list[str]:
    """The lines of a table or of one part."""
    is_left = [head.startswith("<") for head in table.heads]
    rows = [table.titles, *table.rows]
    widths, gap = _fit([max(_width(row[i]) for row in rows) for i in range(len(is_left))], is_left)
    lines = []
    for row in rows:
        lines += _row_lines(row, widths, is_left, gap)
    return lines


def _fit(widths: list[int], is_left: list[bool]) -> tuple[list[int], str]:
    """Column widths and the gap that fit into 80 columns: first the gap, then left columns are narrowed."""
    over = sum(widths) + 2 * (len(widths) - 1) + 2 - WIDTH
    if over <= 0:
        return widths, "  "
    over -= len(widths) - 1
    while over > 0:
        widest = max((i for i in range(len(widths)) if is_left[i]), key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= LEAST_WIDTH:
            break
        less = min(over, widths[widest] - LEAST_WIDTH)
        widths[widest] -= less
        over -= less
    return widths, " "


def _row_lines(row: Sequence[str], widths: list[int], is_left: list[bool], gap: str) -> list[str]:
    """One row: cells of left columns are folded and start at the top, all others end at the bottom."""
    columns = []
    for cell, width, left in zip(row, widths, is_left, strict=True):
        lines = cell.split("\n")
        columns.append([part for line in lines for part in _fold(line, width)] if left else lines)
    height = max(len(column) for column in columns)
    rows = []
    for i in range(height):
        cells = []
        for column, width, left in zip(columns, widths, is_left, strict=True):
            at = (
                i if left else i - (height - len(column))
            )  # a number stands on the last line of a folded name
            text = column[at] if 0 <= at < len(column) else ""
            cells.append(text.ljust(width) if left else text.rjust(width))
        rows.append(("  " + gap.join(cells)).rstrip())
    return rows


def fact_lines(facts: list[tuple[str, str]]) -> list[str]:
    """Names and values, a line each, folded."""
    width = max((len(name) for name, _ in facts), default=0)
    lines: list[str] = []
    for name, value in facts:
        lines += wrap(value, f"  {name.ljust(width)}  ", " " * (width + 4))
    return lines


def section_lines(section: Section) -> list[str]:
    """The section's lines: title, reason of absence, facts, tables, notes, definition."""
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
    """The document's text."""
    lines = [*document.answer.splitlines(), "", ""] if document.answer else []
    lines += wrap(document.title)
    lines += ["=" * min(len(line), WIDTH) for line in lines[-1:]]
    for banner in document.banners:
        lines += wrap(banner, "!! ", "!! ")
    for section in document.sections:
        if not section.folded:
            lines += section_lines(section)
    lines += _folded_lines(document)
    return "\n".join(lines) + "\n"


def _folded_lines(document: Document) -> list[str]:
    """The titles of the folded sections, by the reason why."""
    titles: dict[str, list[str]] = {}
    for section in document.sections:
        if section.folded:
            titles.setdefault(section.folded, []).append(section.title)
    if not titles:
        return []
    lines = ["", f"WITHOUT NEWS, IN {DETAIL} {'-' * (WIDTH - len(DETAIL) - 18)}"]
    for why, of_why in titles.items():
        lines += wrap(f"{why}: {'; '.join(of_why)}", "  - ", "    ")
    return lines


def essence(document: Document, files: Sequence[Path]) -> str:
    """What the terminal shows: the files' paths, what the command printed and, last, the first screen.

    A report without a first screen: its essential sections without definitions, and the paths.
    """
    if document.answer:
        printed = [replace(one, definition="") for one in document.sections if one.before_answer]
        shown = "".join(f"{line}\n" for section in printed for line in section_lines(section))
        return "".join(f"{clean(path)}\n" for path in files) + f"{shown}\n{document.answer}"
    sections = [replace(s, definition="") for s in document.sections if s.essential]
    where = "".join(f"  {clean(path)}\n" for path in files)
    shown = render(replace(document, sections=sections))
    return f"{shown}\nall numbers, definitions and pictures:\n{where}"
