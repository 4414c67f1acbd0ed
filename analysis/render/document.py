# SPDX-License-Identifier: BSD-2-Clause
"""What a report consists of: sections of words, tables and notes. Cells are words already, with units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Columns whose heading begins with "<" are set left, all others right. Where a table is too wide for the
    text, it is continued below with its left columns again; a heading that begins with "&" says that its
    column stays beside the one before. A heading may have several lines."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    least_left: int = 12  # in the text, a left column is folded to so little before the table is continued

    @property
    def titles(self) -> list[str]:
        """The headings as they are shown."""
        return [head[1:] if head[:1] in ("<", "&") else head for head in self.heads]


@dataclass
class Section:
    """One heading of a report. mark: "*" if a collector behind its numbers lost rows."""

    title: str = ""  # empty: the title of the section's spec
    mark: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    definition: str = ""
    absent: str = ""  # why there is nothing to show
    essential: bool = False  # shown on the terminal too
    key: str = ""  # of the section's spec: stays the same when the title changes


@dataclass
class Document:
    """The whole report."""

    title: str
    banners: list[str]  # said on top, before anything else
    sections: list[Section]
