# SPDX-License-Identifier: BSD-2-Clause
"""Quote names and text of a run, which may be anything, for SQL."""

from __future__ import annotations


def name(text: str) -> str:
    """A name of a table or column."""
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"
