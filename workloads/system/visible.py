# SPDX-License-Identifier: BSD-2-Clause
"""Words of others on the user's terminal: what would command it, or hide or turn text, is shown as \\x1b."""


def visible(text: str) -> str:
    """Return the text with only what can be seen in it, and line ends and tabs.

    Others become \\x.. or \\u....: control characters, those that turn text around or have no width, and what
    could not be decoded.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
