# SPDX-License-Identifier: BSD-2-Clause
"""Words of others, made safe to print: some characters command a terminal, others hide or turn text."""

from __future__ import annotations


def clean(value: object, limit: int = 2000) -> str:
    """Words from the run, safe to print: control and invisible characters become \\x.., length bounded."""
    text = str(value)
    if len(text) > limit:
        text = text[:limit] + "..."
    return _shown(text, "")


def visible(text: str) -> str:
    """Text of several lines, safe to print."""
    return _shown(text, "\n\t")


def _shown(text: str, kept: str) -> str:
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape", "replace").decode() for c in text
    )
