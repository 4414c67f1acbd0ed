# SPDX-License-Identifier: BSD-2-Clause
"""The data of a report: sections of facts, tables and notes. Values are text, with their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """One table. A heading may have several lines; its first character sets the column.

    "<": aligned left, all others right. A table too wide for the text is continued below, with its left
    columns again. "&": this column is never parted from the column before.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    least_left: int = 12  # width to which the text folds a left column before it continues the table

    @property
    def titles(self) -> list[str]:
        """The headings as they are printed."""
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
    before_answer: bool = False  # shown on the terminal above the first screen
    key: str = ""  # of the section's spec: stays the same when the title changes
    quiet: str = ""  # why a section that explains no time need not be read: "nothing lost"
    folded: str = ""  # why it is folded to its title: "0.03 s of the time"; empty: it is not


@dataclass
class Document:
    """The whole report."""

    title: str
    banners: list[str]  # warnings above everything else
    sections: list[Section]
    answer: str = ""  # the first screen, as lines of text; empty: the report has none
    answer_page: str = ""  # the same as HTML, in which foreign text is escaped
