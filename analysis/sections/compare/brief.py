# SPDX-License-Identifier: BSD-2-Clause
"""The short comparison: of repetitions only the rows that may differ, and a line with the number of others.

compare_full.txt has all rows.
"""

from __future__ import annotations

from dataclasses import replace

from analysis.render.document import Document, Section, Table
from analysis.sections.compare.table import ComparedTable

FULL = "compare_full.txt"


def _brief_section(section: Section) -> Section:
    tables: list[Table] = []
    left_out = 0
    for table in section.tables:
        if isinstance(table, ComparedTable) and table.alike:
            left_out += len(table.alike)
            table = table.differing()
            if not table.rows:
                continue
        tables.append(table)
    if not left_out:
        return section
    note = f"{left_out:,} more figures do not differ by the rule; {FULL} has them"
    definition = section.definition if tables else ""
    return replace(section, tables=tables, notes=[*section.notes, note], definition=definition)


def brief(document: Document) -> Document:
    """The same document without the rows that do not differ."""
    return replace(document, sections=[_brief_section(section) for section in document.sections])
