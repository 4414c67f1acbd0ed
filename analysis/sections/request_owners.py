# SPDX-License-Identifier: BSD-2-Clause
"""Whose requests the figures are of: the first lines, the section, what stands beside everybody's figures."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.measures.block import request_owners
from analysis.measures.block.request_owners import OWNERS, Owned, Owners
from analysis.measures.locks.lock_waiters import FILESYSTEM, OTHERS, RECORDER, WORKLOAD
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, clean
from analysis.sections import about

TITLE = "Whose requests"
WORDS = {
    WORKLOAD: "the workload's",
    FILESYSTEM: "the file system's own",
    RECORDER: "Seekmeter's",
    OTHERS: "others'",
}
EVERYBODYS = "of everybody's requests on the disk"
MOST_NAMES = 4
WHAT = ("requests", "bytes", "seeks")


def shared(results: Results) -> Owners | None:
    """Whose the requests are, if that is known and others may use the disk too."""
    return results.owners if results.owners is not None and results.owners.is_shared else None


def _names(owned: Owned) -> str:
    """Who submitted most of them."""
    shown = [f"{clean(name, 30)} {n:,}" for name, n in owned.names[:MOST_NAMES]]
    left = len(owned.names) - MOST_NAMES
    return f"{', '.join(shown)}{f', {left:,} more names' if left > 0 else ''}"


def _shares(owners: Owners, owner: str) -> str:
    """This owner's shares of all: "8.1 % of its requests, 12.3 % of its bytes, 9 % of its seeks"."""
    return ", ".join(f"{units.percent(owners.share(owner, what))} % of its {what}" for what in WHAT)


def disk_share(owners: Owners) -> str:
    """How much of the disk was others', for a line of what they did."""
    return f"{units.percent(owners.share(OTHERS, 'bytes'))} % of this disk's bytes are others'"


def banners(results: Results) -> list[str]:
    """What must be said first: how much of the disk was others', from LEAST_TOLD on."""
    owners, said = results.owners, []
    if owners is None:
        return []
    if owners.is_told_first(OTHERS):
        names = f"requests by {_names(owners.of(OTHERS))}"
        meaning = "; 'own' is the workload's, all other figures are everybody's" if owners.is_shared else ""
        said.append(f"others use this disk: {_shares(owners, OTHERS)} are theirs ({names}){meaning}")
    if owners.is_told_first(RECORDER):
        said.append(
            f"the recording itself lies on this disk: {_shares(owners, RECORDER)}; OUT= puts it elsewhere"
        )
    return said


def sections(run: Run, results: Results) -> list[Section]:
    """A row an owner; no section where the disk was the run's alone, or nobody knows."""
    owners = results.owners
    if owners is None or not (owners.is_shared or owners.is_told_first(OTHERS)):
        return []
    section = Section(TITLE, mark=about.mark(run, "block"))
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
        section.notes.append(f"others' requests, by who submitted them: {_names(one)}")
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
    """Written-back data of which nothing tells whose it is, if it is much, and what would."""
    if owners.is_live or not owners.is_shared:
        return []
    whole = sum(one.bytes for one in owners.owned)
    _, size = owners.of(FILESYSTEM).by_class.get("data", (0, 0))
    if size <= request_owners.LEAST_TOLD * whole:
        return []
    return [
        f"whose {units.bytes_(size)} of written-back data are is not known: the files were gone, or not found"
        " in time; with a memory cgroup of its own (MEM=) the workload's pages are told"
    ]


def private_notes(results: Results) -> list[str]:
    """What others asked a disk for that is the run's own."""
    if results.owners is None or results.owners.is_shared or not (one := results.owners.of(OTHERS)).requests:
        return []
    return [f"of these others': {one.requests:,} requests, {units.bytes_(one.bytes)} ({_names(one)})"]


def of_everybody(results: Results, sections: Sequence[Section]) -> list[Section]:
    """The same sections, which say that they are of others' requests too, where that is so."""
    if (owners := shared(results)) is not None and owners.of(OTHERS).requests:
        for one in sections:
            if not one.absent:
                one.notes.insert(0, EVERYBODYS)
    return list(sections)


def totals(results: Results, requests: int, moved: int) -> str:
    """All requests and bytes, for a picture's second line; where others use the disk too, how much is own."""
    owners = shared(results)
    own = [
        "" if owners is None else f" ({units.percent(owners.share(WORKLOAD, what))} % own)" for what in WHAT
    ]
    return f"{requests:,} requests{own[0]}, {units.bytes_(moved)}{own[1]}"
