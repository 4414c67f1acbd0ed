# SPDX-License-Identifier: BSD-2-Clause
"""What a report consists of: sections of words, tables and notes. Cells are words already, with units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Columns whose heading begins with "<" are set left, all others right."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass
class Section:
    """One question of the report. `mark` is "*" when its source lost something (see the losses section)."""

    title: str
    mark: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    definition: str = ""
    absent: str = ""  # why there is nothing to show


@dataclass
class Document:
    """The whole report."""

    title: str
    banners: list[str]  # said on top, before anything else
    sections: list[Section]
