# SPDX-License-Identifier: BSD-2-Clause
"""The tested file system's journal or log: its name and size, and the words that make a larger one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from analysis.rundir.run import Run, as_int, dig
from analysis.rundir.tested import tested_filesystem
from analysis.units import bytes_

JBD2 = ("ext3", "ext4")
LARGE_BYTES = 1 << 30
SECTOR_BYTES = 512
SMALL_BYTES = 64 << 20  # of a journal whose size is not known
LEAST_GROWTH = 4  # a larger journal is so much larger
MOST_SHARE = 0.125  # of the disk that it may take


@dataclass(frozen=True)
class Journal:
    """What is known of it."""

    name: str  # journal, log
    size_bytes: int | None  # None: run.json does not state its extents


def journal_of(run: Run) -> Journal:
    """By run.json's layout: all extents of areas that are the journal's."""
    kind = tested_filesystem(run).kind
    areas = dig(run.facts, "filesystem", "geometry", "areas")
    sectors = 0
    for area in areas if isinstance(areas, list) else []:
        if not isinstance(area, Mapping) or area.get("kind") != "journal":
            continue
        extents = area.get("extents")
        for extent in extents if isinstance(extents, list) else []:
            if not isinstance(extent, list) or len(extent) != 2:
                continue
            begin, end = as_int(extent[0]), as_int(extent[1])
            if begin is not None and end is not None and end > begin:
                sectors += end - begin
    return Journal("log" if kind in ("xfs", "jfs") else "journal", sectors * SECTOR_BYTES or None)


def larger_words(run: Run, journal: Journal) -> tuple[str, str] | None:
    """MKFS= for a larger journal, with the run's own arguments, and what that is in words.

    None: it is large already or on a disk of its own, the disk is too small, or the file system has none
    of a chosen size.
    """
    kind = tested_filesystem(run).kind
    disk = run.int_("device", "size_bytes") or 0
    most = min(LARGE_BYTES, int(disk * MOST_SHARE))
    size = 1 << (most.bit_length() - 1) if most else 0
    if run.text("words", "JOURNAL") or size < LEAST_GROWTH * (journal.size_bytes or SMALL_BYTES):
        return None
    mb = size >> 20
    if kind in JBD2:
        own, more = r"-J\s*size=\S+", f"-J size={mb}"
    elif kind == "xfs":
        own, more = r"-l\s*size=[^\s,]+(?!,)", f"-l size={mb}m"
    else:
        return None
    given = re.sub(own, "", run.text("words", "MKFS")).strip()
    return f"{given} {more}".strip(), f"a {journal.name} of {bytes_(size)}"
