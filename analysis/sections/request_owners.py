# SPDX-License-Identifier: BSD-2-Clause
"""Whose requests: requests, bytes and seeks by owner, where others use the disk too."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import request_owners
from analysis.measures.block.request_owners import OWNERS, Owners
from analysis.measures.locks.lock_waiters import FILESYSTEM, OTHERS, WORKLOAD
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.owner_labels import TITLE, WORDS, submitters
from analysis.sections.spec import SectionSpec
from analysis.tables.load import Tables


def build_owners(run: Run, tables: Tables, results: Results) -> list[Section]:
    """A row an owner; no section where the disk was the run's alone, or the owners are not known."""
    owners = results.owners
    if owners is None or not (owners.is_shared or owners.is_in_banner(OTHERS)):
        return []
    section = Section()
    rows = []
    for owner in OWNERS:
        one = owners.of(owner)
        if not one.requests and owner != WORKLOAD:
            continue
        rows.append(
            (
                WORDS[owner],
                units.count(one.requests),
                units.percent(owners.share(owner, "requests")),
                units.bytes_(one.read_bytes),
                units.bytes_(one.write_bytes),
                units.percent(owners.share(owner, "bytes")),
                units.count(one.seeks),
                units.percent(owners.share(owner, "seeks")),
            )
        )
    heads = ("<of", "requests", "&%", "read", "written", "&% of bytes", "seeks", "&%")
    section.tables.append(Table(heads, rows))
    own = owners.of(FILESYSTEM).by_class
    said = [
        f"{class_} {own[class_][0]:,} requests, {units.bytes_(own[class_][1])}"
        for class_ in ("journal", "metadata", "data", "unknown")
        if own.get(class_, (0, 0))[0]
    ]
    if said:
        section.notes.append(f"the file system's own: {'; '.join(said)}")
    if (one := owners.of(OTHERS)).requests:
        section.notes.append(f"others' requests, by who submitted them: {submitters(one)}")
    section.notes += _untold(owners)
    section.definition = (
        request_owners.OF_PART
        if owners.is_live
        else request_owners.DEFINITION
        if owners.is_shared
        else request_owners.OF_PRIVATE
    )
    return [section]


def _untold(owners: Owners) -> list[str]:
    """A sentence on much written-back data without a known owner, and the remedy."""
    if owners.is_live or not owners.is_shared:
        return []
    whole = sum(one.bytes for one in owners.owned)
    _, size = owners.of(FILESYSTEM).by_class.get("data", (0, 0))
    if size <= request_owners.LEAST_BANNER_SHARE * whole:
        return []
    return [
        f"whose {units.bytes_(size)} of written-back data are is not known: the files were gone, or not found"
        " in time; with a memory cgroup of its own (MEM=) the workload's pages are told"
    ]


SECTIONS = (SectionSpec("owners", TITLE, 300, build_owners, essential=True, collectors=("block",)),)
