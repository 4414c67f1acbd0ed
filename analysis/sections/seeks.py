# SPDX-License-Identifier: BSD-2-Clause
"""Sections on the head's way: whose requests move it, streams, the scheduler's order, and which files."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import files, seek_cost, seeks_by, streams
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections import about, request_owners
from analysis.tables.block import OWN
from analysis.tables.load import Tables


def _signed(value: float | None) -> str:
    return units.bytes_(value) if value is None or value < 0 else "+" + units.bytes_(value)


def seekers_section(run: Run, results: Results) -> Section:
    """Processes by the seeks of their requests."""
    section = Section("Who moves the head", mark=about.mark(run, "block"))
    block, elapsed = results.block, results.window.elapsed_s
    if block is None:
        return section
    rows = [
        (
            r.label,
            units.count(r.requests),
            units.count(r.seeks),
            units.rate(r.seeks / elapsed),
            units.percent(r.of_all),
            units.percent(r.sequential),
            units.percent(r.in_stream),
            _signed(r.net_bytes),
            units.bytes_(r.away_bytes),
        )
        for r in block.seeks_by_process
    ]
    heads = ("<process", "requests", "seeks", "/s", "of all %", "seq. %", "stream %", "net", "away")
    section.tables.append(Table(heads, rows))
    if block.more_processes:
        section.notes.append(f"{block.more_processes:,} more names, with fewer seeks")
    if any(r.label.endswith(OWN) for r in block.seeks_by_process):
        section.notes.append(
            f"{OWN.strip()}: this program itself, at the end of the run above all, when it writes back what"
            " the workload left dirty (phase sync)"
        )
    section.definition = seeks_by.DEFINITION
    return section


def streams_section(run: Run, results: Results) -> Section:
    """Sequential streams, interleaved or not, by device and direction."""
    section = Section("Streams", mark=about.mark(run, "block"))
    block = results.block
    if block is None:
        return section
    several = len({r.dev for r in block.streams}) > 1
    rows = [
        (
            f"{results.device.labels.get(r.dev, 'disk')} {r.op}" if several else r.op,
            units.count(r.requests),
            units.percent(r.adjacent / r.requests),
            units.percent(r.in_stream / r.requests),
            units.count(r.streams),
            units.figures(r.mean_requests) if r.mean_requests is not None else "-",
            units.bytes_(r.mean_bytes),
            units.figures(r.parallel),
        )
        for r in block.streams
    ]
    heads = (
        "<of",
        "requests",
        "adjacent %",
        "in stream %",
        "streams",
        "length",
        "bytes",
        "parallel",
    )
    section.tables.append(Table(heads, rows))
    section.definition = (
        streams.DEFINITION + " adjacent: the one before, of this direction, ended where it begins."
    )
    return section


def order_section(run: Run, results: Results) -> Section:
    """Queue order against issue order, and the model of a spinning disk."""
    section = Section("Queue order, issue order and a spinning disk (model)", mark=about.mark(run, "block"))
    block, elapsed = results.block, results.window.elapsed_s
    if block is None:
        return section
    rows = []
    for r in block.orders:
        label = results.device.labels.get(r.dev, "disk") + ": " if len(block.orders) > 1 else ""
        for name, cost in (("as queued", r.queued), ("as issued", r.issued)):
            rows.append(
                (
                    label + name,
                    units.count(cost.seeks),
                    units.rate(cost.seeks / elapsed),
                    units.seconds(cost.position_s),
                    units.seconds(cost.transfer_s),
                    units.seconds(cost.position_s + cost.transfer_s),
                )
            )
        share = f" ({units.percent(abs(r.saved_seeks) / r.queued.seeks)} %)" if r.queued.seeks else ""
        section.notes.append(
            f"{label}issuing in another order than queued {'cost' if r.saved_seeks < 0 else 'saved'}"
            f" {abs(r.saved_seeks):,} seeks{share}; in the model positioning took"
            f" {units.seconds(abs(r.saved_s))} s {'more' if r.saved_s < 0 else 'less'}"
        )
    heads = ("<order", "seeks", "seeks/s", "model: positioning s", "transfer s", "in all s")
    section.tables.append(Table(heads, rows))
    section.notes.append(
        f"recorded: {units.seconds(elapsed)} s. What merging saved is in neither order: bios that were merged"
        " are one request in both"
    )
    section.definition = seek_cost.DEFINITION
    return section


def files_section(run: Run, tables: Tables, results: Results) -> Section:
    """The top files."""
    section = Section("Files", mark=about.mark(run, "block"))
    block = results.block
    if block is None:
        return section
    found = block.files
    if not found.rows:
        section.absent = "no read or write was of a known inode"
        return section
    rows: list[tuple[str, ...]] = [
        (
            r.path if r.path is not None else "-",
            str(r.ino),
            units.count(r.seeks.requests),
            units.bytes_(r.bytes),
            units.count(r.seeks.seeks),
            units.percent(r.seeks.of_all),
            units.percent(r.seeks.sequential),
            units.percent(r.seeks.in_stream),
        )
        for r in found.rows
    ]
    heads: tuple[str, ...] = (
        "<path", "inode", "requests", "bytes", "seeks", "of all %", "seq. %", "stream %"
    )  # fmt: skip
    if request_owners.shared(results) is not None:
        heads = ("<path", "<whose", *heads[1:])
        rows = [
            (row[0], request_owners.WORDS[r.owner], *row[1:]) for row, r in zip(rows, found.rows, strict=True)
        ]
    section.tables.append(Table(heads, rows, least_left=16))
    life_of = [
        (
            r.path if r.path is not None else "-",
            str(r.ino),
            *(units.ns(v) for v in (*(r.d2c_ns or (None, None)), *(r.q2c_ns or (None, None)))),
        )
        for r in found.rows
    ]
    section.tables.append(
        Table(("<path", "inode", "D2C p50", "p99", "Q2C p50", "p99"), life_of, least_left=16)
    )
    for r in found.rows:
        if r.earlier:
            section.notes.append(
                f"of the requests of inode {r.ino}, {r.earlier:,} are older than {r.path}: another file's, "
                f"which had its number before"
            )
    if found.files > len(found.rows):
        section.notes.append(f"{found.files - len(found.rows):,} more inode numbers")
    section.notes.append(
        f"{found.requests:,} reads and writes were of {found.files:,} inode numbers (a deleted"
        f" file's may be another's later), {units.bytes_(found.bytes)};"
        f" {found.without:,} of none that is known (metadata, journal, direct)"
    )
    if tables.paths is None:
        section.notes.append("no paths were looked for in this run")
    section.definition = files.DEFINITION
    return section


def sections(run: Run, tables: Tables, results: Results) -> list[Section]:
    """All of them; none where there are no reads or writes, which the seeks section says."""
    if results.block is None or not results.block.streams:
        return []
    return [
        seekers_section(run, results),
        *request_owners.of_everybody(results, [streams_section(run, results), order_section(run, results)]),
        files_section(run, tables, results),
    ]
