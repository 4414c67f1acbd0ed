# SPDX-License-Identifier: BSD-2-Clause
"""Templates of pages: all text that is put in is escaped, and a name that is not given is an error."""

from __future__ import annotations

from pathlib import Path

import jinja2


def templates(folder: Path) -> jinja2.Environment:
    """The templates of a folder."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
