# SPDX-License-Identifier: BSD-2-Clause
"""Inode locks: the inodes whose locks were waited on longest."""

from __future__ import annotations

from analysis import units
from analysis.measures.locks import lock_waits
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.device_number import device_number
from analysis.rundir.devices import stated
from analysis.rundir.run import Run
from analysis.sections.lock_labels import TOP
from analysis.sections.spec import LOCKS, SectionSpec
from analysis.tables.load import Tables


def build_inode_locks(run: Run, tables: Tables, results: Results) -> list[Section]:
    """The inodes whose locks were waited on longest; no section without one."""
    if results.locks.waits is None or not results.locks.waits.instances:
        return []
    section = Section()
    rows = []
    several = False
    shown = [
        i
        for i in results.locks.waits.instances
        if (i.spin_ns + i.sleep_ns) * 1000 >= results.locks.waits.total_ns
    ]
    for i in shown[:TOP]:
        several |= i.inodes > 1
        rows.append(
            (
                f"{i.type} {i.name}",
                f"{i.ino}{'+' if i.inodes > 1 else ''}",
                units.count(i.waits),
                units.ns(i.spin_ns),
                units.ns(i.sleep_ns),
                _path_text(run, tables, i),
            )
        )
    if rows:
        section.tables.append(Table(("<lock", "inode", "waits", "spin", "sleep", "<path"), rows))
    left = len(results.locks.waits.instances) - len(rows)
    if left > 0:
        section.notes.append(f"{left:,} more inode locks, each with less waiting")
    if several:
        section.notes.append("+: several inodes used this memory in turn; the first is named")
    section.definition = (
        "lock: a lock inside an inode; path: from the mount point on, at the end of the workload."
    )
    return [section]


def _path_text(run: Run, tables: Tables, lock: lock_waits.Instance) -> str:
    """An inode's path, or why there is none."""
    if lock.path:
        return lock.path
    if lock.device:
        name = next((d.name for d in stated(run) if d.number == device_number(lock.device)), lock.device)
        return f"(the page cache of the disk {name} itself)"
    if lock.dev and lock.dev != run.text("device", "dev"):
        return f"(another file system, {lock.dev})"
    return "(gone)" if tables.paths is not None else "(not resolved)"


SECTIONS = (
    SectionSpec(
        "inode_locks", "Inode locks", 2100, build_inode_locks, collectors=("locks",), explains=(LOCKS,)
    ),
)
