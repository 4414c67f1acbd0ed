# SPDX-License-Identifier: BSD-2-Clause
"""Published comparisons of file systems as sweeps: a TOML and a CSV file each. README.md has the keys."""

import functools
import os
from pathlib import Path

from workloads.studies.schema import Study, read
from workloads.system.errors import OptionError, nearest
from workloads.system.tree import TREE

_HERE = TREE / "workloads/studies"


@functools.cache
def names() -> list[str]:
    """Return the names of all studies."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


def find(text: str) -> Study:
    """Return the study that NAME= gives: one of names(), or the path of a TOML file. Raises OptionError."""
    if text in names():
        return load(text)
    if text.endswith(".toml") or os.sep in text:
        if not os.path.isfile(text):
            raise OptionError(f"{text} is not a file: give the path of a study's TOML file")
        return read(Path(text))
    hint = nearest(text, names())
    raise OptionError(f"{text!r} is not a study: {hint} (a file of your own ends with .toml)")


@functools.cache
def load(name: str) -> Study:
    """Return one of the studies of this folder. Raises OptionError if its files are broken."""
    return read(_HERE / f"{name}.toml")
