# SPDX-License-Identifier: BSD-2-Clause
"""The interface of the formats that `make export TO=` writes: a module of on_request/ states FORMAT.

A format writes the whole recording: mkfs and fsck, if they were recorded, are in it too. It never makes up
what a run does not have; what it leaves out or changes, it counts and says in Exported.notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.rundir.run import Run
from analysis.tables.load import TABLES, open_table
from analysis.tables.spec import TableSpec
from analysis.tables.store import Stored


@dataclass(frozen=True)
class Exported:
    """What a format wrote. files: names in the folder. notes: sentences for the terminal and the README."""

    files: Sequence[str]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Source:
    """The run that is exported. Tables are opened on first use, and read a column or a part at a time."""

    run: Run
    opened: dict[str, Stored | None] = field(default_factory=dict)

    def table(self, spec: TableSpec[Any]) -> Stored | None:
        """The open table; None: the run has none, or none that can be read (Run.missing says why)."""
        if spec.name not in self.opened:
            self.opened[spec.name] = open_table(self.run, spec)
        return self.opened[spec.name]

    def tables(self) -> Mapping[str, Stored]:
        """All tables that the run has, by name."""
        found = {name: self.table(spec) for name, spec in TABLES.items()}
        return {name: stored for name, stored in found.items() if stored is not None}


@dataclass(frozen=True)
class Format:
    """One format. key: what TO= names. about: a line for the list. Raises ReportError from `write`.

    write: makes the files in an open folder.
    """

    key: str
    order: int
    about: str
    write: Callable[[Source, Path], Exported]
