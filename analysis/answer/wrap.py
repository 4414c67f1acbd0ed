# SPDX-License-Identifier: BSD-2-Clause
"""Text in lines of 80 columns: numbers stay with their units, and what does not fit is left out in parts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from analysis.rundir.run import clean

WIDTH = 80
LETTERS = 700  # of one text, before it is wrapped
NO_BREAK = "\u00a0"  # textwrap does not break here
_AMOUNT = re.compile(r"(\d) (%|s|ms|us|ns|min|h|B|[kMGT]B|[kMGT]?B/s|ops/s|CPUs?|CPU s)(?![\w/])")
_END = re.compile(r"(?<=[,;]) ")  # of a part


def joined(text: str) -> str:
    """The text in which no line may end between a number and its unit."""
    return _AMOUNT.sub(rf"\1{NO_BREAK}\2", text)


def lines_of(text: str, indent: str, first: str | None = None, width: int = WIDTH) -> list[str]:
    """The text in as many lines as it takes. first: begin of the first line, else the indent."""
    head = indent if first is None else first
    lines = textwrap.wrap(
        joined(clean(text, LETTERS)),
        width,
        initial_indent=head,
        subsequent_indent=indent,
        break_on_hyphens=False,
    ) or [head.rstrip()]
    return [line.replace(NO_BREAK, " ") for line in lines]


def cut(text: str, indent: str, most: int, first: str | None = None, width: int = WIDTH) -> list[str]:
    """The text in at most so many lines; an ellipsis stands for what is cut between words."""
    lines = lines_of(text, indent, first, width)
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while len(last) + 4 > width and " " in last.rstrip()[len(indent) :]:
        last = last.rstrip().rpartition(" ")[0]
    return [*lines[: most - 1], f"{last.rstrip()[: width - 4]} ..."]


def whole_parts(
    texts: Sequence[str], between: str, indent: str, most: int, first: str | None = None
) -> tuple[list[str], int]:
    """As many whole texts as fit into so many lines, and how many; the first is cut if not even that fits."""
    for kept in range(len(texts), 0, -1):
        lines = lines_of(between.join(texts[:kept]), indent, first)
        if len(lines) <= most:
            return lines, kept
    return (cut(texts[0], indent, most, first), 1) if texts else ([], 0)


def parts(text: str, indent: str, most: int, first: str | None = None) -> list[str]:
    """The text in at most so many lines, cut at a comma or semicolon, where an ellipsis stands."""
    pieces = _END.split(clean(text, LETTERS))
    for kept in range(len(pieces), 0, -1):
        more = ", ..." if kept < len(pieces) else ""
        lines = lines_of(" ".join(pieces[:kept]).rstrip(",;") + more if more else text, indent, first)
        if len(lines) <= most:
            return lines
    return cut(text, indent, most, first)
