# SPDX-License-Identifier: BSD-2-Clause
"""The questions of analysis/queries: one .sql file each, asked by SQL=@NAME.

A file's head is comment lines: the licence, the question in one line, then columns and what to change.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from analysis import front
from analysis.errors import OptionError
from analysis.visible import clean

FOLDER = Path(__file__).parents[1] / "queries"


def names() -> list[str]:
    """Every question's name, sorted."""
    return sorted(file.stem for file in FOLDER.glob("*.sql"))


def read(name: str) -> str:
    """The SQL of a question. Raises OptionError."""
    known = names()
    if name not in known:
        close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
        nearest = (
            f"did you mean SQL=@{' or SQL=@'.join(close)}?"
            if close
            else f"{front.command('query')} lists them"
        )
        raise OptionError(f"SQL=@{clean(name, 60)} is no question of analysis/queries: {nearest}")
    return (FOLDER / f"{name}.sql").read_text()


def title(name: str) -> str:
    """The question in one line: the first comment line below the licence's."""
    return read(name).splitlines()[1].removeprefix("--").strip()
