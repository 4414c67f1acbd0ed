# SPDX-License-Identifier: BSD-2-Clause
"""Escape foreign text for the user's terminal: control, invisible and bidirectional characters as \\x1b."""


def visible(text: str) -> str:
    """Return the text with only printable characters, line ends and tabs.

    Other characters become \\x.. or \\u....: control characters, characters that reverse text or have no
    width, and bytes that could not be decoded.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Return foreign text without line ends, which would make lines of their own among ours."""
    return " ".join(text.split())
