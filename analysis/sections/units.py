# SPDX-License-Identifier: BSD-2-Clause
"""I/O, waits and CPU time by service, container, pod, virtual machine and user."""

from __future__ import annotations

from analysis import units
from analysis.measures.results import Results
from analysis.measures.threads.over_time import READY_KEY
from analysis.measures.units.by_unit import KERNEL_THREADS, NOT_KNOWN, WAITS, UnitResults, UnitRow
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, clean
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables

TOP = 20
NAME_LETTERS = 40
LEAST_SHARE = 0.01  # of the bytes: less is no news
HEADS = {READY_KEY: "ready"}
DEFINITION = (
    "unit: what the request's or thread's cgroup (v2) is of. A request is its submitter's; write-back, which"
    " a kernel thread sends, is that of the bio's block cgroup, else of the memory cgroup that its first page"
    " is charged to. p50, p99: queue to completion. busy: of the time that the disks had requests; a moment"
    " with n in flight counts 1/n for each. CPU, waits: summed over its threads, without voluntary sleep."
)


def build_units(_: Run, __: Tables, results: Results) -> list[Section]:
    """No section where one unit alone used the disks, or the names were not recorded."""
    found = results.units
    if found is None:
        return []
    section = Section(definition=DEFINITION)
    shown, rest = found.rows[:TOP], found.rows[TOP:]
    users = [row for row in shown if row.requests]
    section.tables.append(_requests(found, users))
    if found.has_threads:
        timed = [row for row in shown if row.threads]
        section.tables.append(_times(timed))
    if rest:
        section.notes.append(
            f"{len(rest)} more, each less: {units.bytes_(sum(row.bytes for row in rest))},"
            f" CPU {units.ns(sum(row.cpu_ns for row in rest))}"
        )
    section.notes += _notes(found)
    return [section]


def _name(row: UnitRow) -> str:
    name = clean(row.name, 200)
    return name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS - 2]}.."


def _requests(found: UnitResults, rows: list[UnitRow]) -> Table:
    lines = [
        (
            _name(row),
            row.kind,
            units.count(row.requests),
            units.bytes_(row.read_bytes),
            units.bytes_(row.write_bytes),
            units.count(round(row.requests / found.seconds)) if found.seconds else "-",
            *(units.ns(value) for value in row.q2c_ns or ()),
            *(() if row.q2c_ns else ("-", "-")),
            units.percent(row.busy_ns / found.busy_ns if found.busy_ns else None),
        )
        for row in rows
    ]
    return Table(("<unit", "<kind", "requests", "read", "written", "IOPS", "p50", "p99", "busy %"), lines)


def _times(rows: list[UnitRow]) -> Table:
    waits = [name for name in WAITS if any(row.waits_ns.get(name) for row in rows)]
    lines = [
        (
            _name(row),
            units.count(row.threads),
            units.ns(row.cpu_ns),
            *(units.ns(row.waits_ns[name]) if row.waits_ns.get(name) else "" for name in waits),
        )
        for row in rows
    ]
    return Table(("<unit", "threads", "CPU", *(HEADS.get(name, name) for name in waits)), lines)


def _notes(found: UnitResults) -> list[str]:
    notes = []
    whole = found.bytes or 1
    unknown, kernel = found.of(NOT_KNOWN), found.of(KERNEL_THREADS)
    if unknown.requests:
        notes.append(
            f"not known: {units.count(unknown.requests)} requests, {units.bytes_(unknown.bytes)}"
            f" ({units.percent(unknown.bytes / whole)} % of the bytes): no cgroup was recorded, or it"
            " began and ended between two looks at the tree, a second apart"
        )
    if unknown.threads:
        notes.append(
            f"not known: {units.counted(unknown.threads, 'thread')}, most of which did not run while recorded"
        )
    back = sum(row.written_back_bytes for row in found.rows if row.is_named)
    if back:
        notes.append(
            f"of the units' bytes, {units.bytes_(back)} were written back by kernel threads for them"
        )
    if kernel.write_bytes > LEAST_SHARE * whole:
        why = (
            "cgroup2 has neither the io nor the memory controller here, so nothing names the owner of"
            " write-back: boot with systemd.unified_cgroup_hierarchy=1"
            if not found.controllers
            else "journals, and write-back of pages that no cgroup is charged with"
        )
        notes.append(
            f"kernel threads: {units.bytes_(kernel.write_bytes)} written"
            f" ({units.percent(kernel.bytes / whole)} % of the bytes): {why}"
        )
    if found.left_out_cgroups:
        notes.append(f"{found.left_out_cgroups:,} cgroups are not named: the tree is larger than its record")
    if not found.is_whole_tree:
        notes.append(
            "recorded in a container that sees a part of the cgroups: start it in the host's cgroup namespace"
        )
    return notes


SECTIONS = (
    SectionSpec(
        "units",
        "By service and container",
        305,
        build_units,
        collectors=("block", "threads"),
        of_disks=True,
        explains=(DEVICE,),
    ),
)
