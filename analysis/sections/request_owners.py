# SPDX-License-Identifier: BSD-2-Clause
"""Requests by owner: requests, bytes and seeks, where other programs use the disk too."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import request_owners
from analysis.measures.block.request_owners import OWNERS, Owners
from analysis.measures.locks.lock_waiters import FILESYSTEM, OTHERS, WORKLOAD
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.owner_labels import OWNER_LABELS, TITLE, counted, submitters
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables

OF_VOLUMES = (
    " Above volumes, bytes are those of the file system's bios, seeks those of the disks' requests for"
    " these; what volumes do on their own is nobody's."
)


def build_owners(run: Run, tables: Tables, results: Results) -> list[Section]:
    """A row an owner; no section where the disk was the run's alone, or the owners are not known."""
    owners = results.owners
    if owners is None or not (owners.is_shared or owners.is_in_banner(OTHERS)):
        return []
    section = Section()
    has_disks = not results.is_stacked or (
        results.block is not None and results.block.disk_owners is not None
    )
    what = counted(results)
    rows = []
    for owner in OWNERS:
        owned = owners.of(owner)
        if not owned.requests and owner != WORKLOAD:
            continue
        rows.append(
            (
                OWNER_LABELS[owner],
                units.count(owned.requests),
                units.percent(owners.share(owner, "requests")),
                units.bytes_(owned.read_bytes),
                units.bytes_(owned.write_bytes),
                units.percent(owners.share(owner, "bytes")),
                units.count(owned.seeks) if has_disks else "-",
                units.percent(owners.share(owner, "seeks")) if has_disks else "-",
            )
        )
    heads = ("<owner", what, "&%", "read", "written", "&% of bytes", "seeks", "&%")
    section.tables.append(Table(heads, rows))
    own = owners.of(FILESYSTEM).by_class
    by_class = [
        f"{class_} {own[class_][0]:,} {what}, {units.bytes_(own[class_][1])}"
        for class_ in ("journal", "metadata", "data", "unknown")
        if own.get(class_, (0, 0))[0]
    ]
    if by_class:
        section.notes.append(f"file system: {'; '.join(by_class)}")
    if (others := owners.of(OTHERS)).requests:
        section.notes.append(f"other programs, by submitter: {submitters(others)}")
    section.notes += _unknown_owner(owners)
    section.definition = (
        request_owners.OF_PART
        if owners.is_live
        else request_owners.DEFINITION
        if owners.is_shared
        else request_owners.OF_PRIVATE
    ) + (OF_VOLUMES if results.is_stacked else "")
    return [section]


def _unknown_owner(owners: Owners) -> list[str]:
    """A sentence on much written-back data without a known owner, and the remedy."""
    if owners.is_live or not owners.is_shared:
        return []
    whole = sum(owned.bytes for owned in owners.owned)
    _, size = owners.of(FILESYSTEM).by_class.get("data", (0, 0))
    if size <= request_owners.LEAST_BANNER_SHARE * whole:
        return []
    return [
        f"owner not known: {units.bytes_(size)} of written-back data, of files that were gone or not"
        " resolved in time; MEM= gives the workload a memory cgroup, which identifies its pages"
    ]


SECTIONS = (
    SectionSpec(
        "owners", TITLE, 300, build_owners, essential=True, collectors=("block",), explains=(DEVICE,)
    ),
)
