# SPDX-License-Identifier: BSD-2-Clause
"""What a module of this folder declares: SECTIONS, the sections that it builds, found by the folder.

A new section is one module with SECTIONS and a test; no list names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.measures.results import Results
from analysis.render.document import Section
from analysis.rundir.run import Run
from analysis.tables.load import Tables

# What sections may explain: parts of the workload's wall time, as analysis/answer/detail.py measures them.
TIME = "time"  # all of it
CPU, DEVICE, SEEKS, LOCKS, EVENTS = "cpu", "device", "seeks", "locks", "events"


@dataclass(frozen=True)
class SectionSpec:
    """One heading of the report. build returns no section where there is nothing to say.

    A section without a title of its own gets the spec's. Sections that have something to show are marked if
    one of the collectors lost rows.
    """

    key: str  # stays the same when the title changes
    title: str
    order: int  # ascending down the report
    build: Callable[[Run, Tables, Results], Sequence[Section]]
    essential: bool = False  # shown on the terminal too
    collectors: tuple[str, ...] = ()  # where the section's numbers come from
    of_disks: bool = False  # counts the disks' requests also where the file system uses volumes above these
    counts_all: bool = False  # counts all requests; a note states it where other programs use the disk too
    explains: tuple[str, ...] = ()  # of the names above; empty: facts for reference, at the end of the report
