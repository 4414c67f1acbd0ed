# SPDX-License-Identifier: BSD-2-Clause
"""Seeks by process and file, with the streams and the latency of each file's requests."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import files, seeks_by
from analysis.measures.block.results import BlockResults
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections import owner_labels
from analysis.sections.spec import SEEKS, SectionSpec
from analysis.tables.block import OWN
from analysis.tables.load import Tables

NO_LATENCY = (None, None)
OF_VOLUMES = (
    " Requests, bytes and seeks are those of the disks below the volumes: of a mirror, each copy counts. A"
    " request has the process and file of the bio that it serves."
)


def build_seeks_by(run: Run, tables: Tables, results: Results) -> list[Section]:
    """A table of processes and a table of files; none without reads or writes."""
    block = results.block
    if block is None or not block.streams:
        return []
    section = Section()
    _add_processes(section, block, results.window.elapsed_s)
    _add_files(section, block, tables, results.shared_owners is not None)
    section.definition = f"{seeks_by.DEFINITION} Files: {files.DEFINITION}"
    if results.is_stacked:
        section.definition += OF_VOLUMES
    return [section]


def _add_processes(section: Section, block: BlockResults, elapsed_s: float) -> None:
    rows = [
        (
            row.label,
            units.count(row.requests),
            units.count(row.seeks),
            units.rate(row.seeks / elapsed_s),
            units.percent(row.of_all),
            units.percent(row.sequential),
            units.percent(row.in_stream),
            _signed(row.net_bytes),
            units.bytes_(row.away_bytes),
        )
        for row in block.seeks_by_process
    ]
    heads = ("<process", "requests", "seeks", "/s", "% of total", "seq. %", "stream %")
    section.tables.append(Table((*heads, "mean\nsigned", "&mean\nabsolute"), rows))
    if block.more_processes:
        section.notes.append(f"{block.more_processes:,} more names, with fewer seeks")
    if any(row.label.endswith(OWN) for row in block.seeks_by_process):
        section.notes.append(
            f"{OWN.strip()}: Seekmeter's own requests, most at the end of the run, when it writes back"
            " what the workload left dirty (phase sync)"
        )


def _add_files(section: Section, block: BlockResults, tables: Tables, is_shared: bool) -> None:
    """Top files by requests, bytes and seeks, with the latency of their own requests."""
    top = block.files
    if not top.rows:
        section.notes.append("no table of files: no read or write was of a known inode")
        return
    rows = [
        (
            row.path if row.path is not None else "-",
            *((owner_labels.OWNER_LABELS.get(row.owner, row.owner),) if is_shared else ()),
            str(row.ino),
            units.count(row.seeks.requests),
            units.bytes_(row.bytes),
            units.count(row.seeks.seeks),
            units.percent(row.seeks.of_all),
            units.percent(row.seeks.sequential),
            units.percent(row.seeks.in_stream),
            *(units.ns(value) for value in (*(row.d2c_ns or NO_LATENCY), *(row.q2c_ns or NO_LATENCY))),
        )
        for row in top.rows
    ]
    heads = ["<path", *(["<owner"] if is_shared else []), "inode", "requests", "bytes", "seeks", "% of total"]
    heads += ["seq. %", "stream %", "D2C p50", "&p99", "Q2C p50", "&p99"]
    section.tables.append(Table(heads, rows, least_left=16))
    section.notes += [
        f"of the requests of inode {row.ino}, {row.earlier:,} are older than {row.path}: they belong to an"
        " earlier file with the same inode number"
        for row in top.rows
        if row.earlier
    ]
    if top.files > len(top.rows):
        section.notes.append(f"{top.files - len(top.rows):,} more inode numbers")
    section.notes.append(
        f"reads and writes with a known inode: {top.requests:,}, of {top.files:,} inode numbers (a deleted"
        f" file's number may be used again), {units.bytes_(top.bytes)}; without: {top.without:,} (metadata,"
        " journal, direct I/O)"
    )
    if tables.paths is None:
        section.notes.append("paths were not resolved in this run")


def _signed(value: float | None) -> str:
    return units.bytes_(value) if value is None or value < 0 else "+" + units.bytes_(value)


SECTIONS = (
    SectionSpec(
        "seeks_by",
        "Seeks by process and file",
        1000,
        build_seeks_by,
        collectors=("block",),
        explains=(SEEKS,),
    ),
)
