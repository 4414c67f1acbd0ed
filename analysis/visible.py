# SPDX-License-Identifier: BSD-2-Clause
"""Make foreign text safe to print: escape control characters (terminal commands) and invisible ones."""

from __future__ import annotations


def clean(value: object, limit: int = 2000) -> str:
    """A line of foreign text, safe to print: unprintable characters become \\x.., `limit` letters stay."""
    text = str(value)
    if len(text) > limit:
        text = text[:limit] + "..."
    return _shown(text, "")


def visible(text: str) -> str:
    """Foreign text of several lines, safe to print: line feeds and tabs stay."""
    return _shown(text, "\n\t")


def _shown(text: str, kept: str) -> str:
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape", "replace").decode() for c in text
    )
