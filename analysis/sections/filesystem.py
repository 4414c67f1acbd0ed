# SPDX-License-Identifier: BSD-2-Clause
"""mkfs, fsck and space: times of mkfs and fsck, fsck's verdict, used space (run.json).

Their requests, where they were recorded too (WITH="mkfs fsck").
"""

from __future__ import annotations

from analysis import units
from analysis.measures.app.space import WHEN, space, taken_bytes
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, clean
from analysis.sections.outcome import verdict
from analysis.sections.spec import SectionSpec
from analysis.tables.load import Tables

BLOCKS = (("total", "total_bytes"), ("used", "used_bytes"), ("available", "available_bytes"))
INODES = (("inodes", "inodes"), ("inodes used", "inodes_used"))
NOT_KNOWN = [None, None]


def _space_table(run: Run) -> Table | None:
    def known(what: str) -> list[int | None]:
        return [space(run, when, what) for when in WHEN]

    rows = [(name, *map(units.bytes_, known(what))) for name, what in BLOCKS if known(what) != NOT_KNOWN]
    taken = [taken_bytes(run, when) for when in WHEN]
    if taken != NOT_KNOWN:
        rows.append(("taken of the disk", *map(units.bytes_, taken)))
    if any(known("inodes")):  # btrfs has none to run out of
        rows += [(name, *map(units.count, known(what))) for name, what in INODES]
    return Table(("<space", "after mkfs", "after the run"), rows) if rows else None


def _took_s(results: Results, name: str, timed_s: float | None) -> float | None:
    """Seconds of a step: from its recording, else as the session timed it."""
    return next((step.elapsed_s for step in results.outside.steps if step.name == name), timed_s)


def _steps_table(results: Results) -> Table:
    rows = [
        (
            step.name,
            units.seconds(step.elapsed_s),
            units.count(step.requests),
            units.bytes_(step.read_bytes),
            units.bytes_(step.write_bytes),
            units.bytes_(step.erased_bytes),
            units.count(step.seeks),
        )
        for step in results.outside.steps
    ]
    return Table(("<step", "s", "requests", "read", "written", "erased", "seeks"), rows)


def build_filesystem(run: Run, tables: Tables, results: Results) -> list[Section]:
    """The section; none for a run without a file system of its own."""
    section = Section()
    mkfs_s = _took_s(results, "mkfs", run.float_("timing", "mkfs_s"))
    fsck_s = _took_s(results, "fsck", run.float_("filesystem", "fsck", "seconds"))
    if mkfs_s is not None and run.text("filesystem", "mkfs"):
        section.facts.append(("mkfs", f"{units.seconds(mkfs_s)} s"))
    if fsck_verdict := verdict(run):
        took = f"{units.seconds(fsck_s)} s, " if fsck_s is not None else ""
        command = run.text("filesystem", "fsck", "command")
        section.facts.append(("fsck", f"{took}{fsck_verdict}{f' ({command})' if command else ''}"))
        if fsck_verdict == "DAMAGED":
            section.notes += [
                f"fsck: {clean(line)}" for line in run.str_list("filesystem", "fsck", "said")[-8:]
            ]
    room = _space_table(run)
    if room is not None:
        section.tables.append(room)
        section.definition = (
            "total, used, available: from the file system itself (statvfs, as df), after the first mount and"
            " after the last sync. used: all blocks less free blocks (f_blocks - f_bfree); available: free"
            " and not reserved for root (f_bavail); taken of the disk: the disk's size less free blocks;"
            " includes what mkfs took and df does not count."
        )
    if results.outside.steps:
        section.tables.append(_steps_table(results))
        section.definition += " erased: bytes discarded, or set to zero without data."
        if results.outside.requests is not None:
            section.notes.append(
                f"{results.outside.requests:,} requests of these steps, and between these steps and the"
                " workload, count in the IO graph, in the phases and in the comparison with the device's own"
                " counters, and in no other number"
            )
    if fsck_verdict:
        section.definition += " fsck: checks the unmounted disk, reads from the device, changes nothing."
    section.definition = section.definition.strip()
    return [section] if section.facts or section.tables else []


SECTIONS = (SectionSpec("filesystem", "mkfs, fsck and space", 500, build_filesystem),)
