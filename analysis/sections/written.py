# SPDX-License-Identifier: BSD-2-Clause
"""Where the written bytes went: from the application's calls to the disk, for the run and by phase."""

from __future__ import annotations

from analysis import units
from analysis.measures.app import unseen
from analysis.measures.origin.written import Written, WrittenRow
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables.load import Tables

MOST_PHASES = 20
DEFINITION = (
    "application: bytes returned by calls that write. dirtied: bytes that became dirty in regular files,"
    " in whole pages. overwritten while dirty: application - direct - dirtied; parts of pages that nobody"
    " wrote make it smaller. deleted: dirty as their file was cut or removed, in any file system that the"
    " workload used. left: dirtied - deleted - data: still dirty at the end, in flight at an edge of the"
    " recording, stored as metadata (btrfs inlines small files) or compressed. data, metadata, journal:"
    " requests by class, see throughput, which compares them with the device's own counter; other: of"
    " unknown class. direct: of data, direct I/O. factor: bytes on the disk for each that the application"
    " wrote. By phase: the disk writes later what a phase dirtied, so the sums hold for the run, not for"
    " a phase."
)


def build_written(run: Run, tables: Tables, results: Results) -> list[Section]:
    """The balance of the run, and a row a phase; no section for an older run, or without writes."""
    written = results.origins.written
    if written is None or not (written.whole.device or written.whole.app):
        return []
    section = Section()
    section.facts += _balance(written, bool(results.app.uncounted))
    if len(written.phases) > 1:
        section.tables.append(_phases(written, bool(results.app.uncounted)))
    section.notes += _notes(run, written, results)
    section.definition = DEFINITION
    return [section]


def _balance(written: Written, is_bound: bool) -> list[tuple[str, str]]:
    whole = written.whole
    facts = []
    if whole.app is not None:
        facts.append(("application wrote", unseen.at_least(units.bytes_(whole.app), is_bound)))
    if whole.dirtied is not None and written.is_exact:
        facts += _by_dirtied(written, whole.dirtied)
    elif written.not_sent is not None:
        what = "- never sent" if written.not_sent >= 0 else "+ rest of pages, mapped stores"
        facts.append((what, units.bytes_(abs(written.not_sent))))
    sign = "= " if facts else ""
    facts.append((f"{sign}data sent to the disk", units.bytes_(whole.data)))
    facts += [
        (f"+ {name}", units.bytes_(size))
        for name, size in (
            ("metadata", whole.metadata),
            ("journal", whole.journal),
            ("zeroed", whole.zeroed),
            ("other", whole.other),
        )
        if size
    ]
    factor = (
        f", {units.figures(whole.amplification)} for each byte of the application"
        if whole.amplification
        else ""
    )
    facts.append(("= written to the disk", f"{units.bytes_(whole.device)}{factor}"))
    return facts


def _slack(written: Written) -> float:
    """By so much both what was overwritten and the rest of pages may be more than the balance has."""
    most, overwritten = written.most_overwritten, written.overwritten
    return 0.0 if most is None or overwritten is None else most - max(overwritten, 0.0)


def _apart(written: Written) -> list[str]:
    """A sentence on what was overwritten while dirty, and the rest of pages: both lie between bounds."""
    overwritten, most = written.overwritten, written.most_overwritten
    if overwritten is None:
        return []
    if most is None:
        return ["overwritten while dirty is less the rest of pages: an older recording does not bound them"]
    least, rest = max(overwritten, 0.0), max(-overwritten, 0.0)
    slack = _slack(written)
    if not slack:
        odd = least - (written.over or 0.0)
        residue = (
            f", of which {units.bytes_(odd)} can't be explained by writes over others" if odd > 0 else ""
        )
        return [
            f"overwritten while dirty: {units.bytes_(least)}{residue}; rest of pages and mapped stores:"
            f" {units.bytes_(rest)}: no write can have overwritten more"
        ]
    return [
        f"overwritten while dirty: {units.bytes_(least)} to {units.bytes_(least + slack)}; rest of pages and"
        f" mapped stores: {units.bytes_(rest)} to {units.bytes_(rest + slack)}: which of the bytes that calls"
        " wrote over others were still dirty is not recorded"
    ]


def _by_dirtied(written: Written, dirtied: float) -> list[tuple[str, str]]:
    """From the calls to what became dirty, and from there to the disk; direct I/O passes by."""
    facts = []
    direct = units.bytes_(written.whole.direct)
    if written.overwritten is not None:
        if written.whole.direct:
            facts.append(("- direct I/O, never dirty", direct))
        what = "- overwritten while dirty" if written.overwritten >= 0 else "+ rest of pages, mapped stores"
        bound = " at least" if _slack(written) else ""
        facts.append((what, f"{units.bytes_(abs(written.overwritten))}{bound}"))
    facts.append(("= dirtied" if written.overwritten is not None else "dirtied", units.bytes_(dirtied)))
    if written.deleted is not None:
        facts.append(("- deleted while dirty", units.bytes_(written.deleted)))
    if written.left is not None:
        what = "- left" if written.deleted is not None else "- deleted, or left"
        facts.append(
            (what if written.left >= 0 else "+ not seen to be dirtied", units.bytes_(abs(written.left)))
        )
    if written.whole.direct:
        facts.append(("+ direct I/O", direct))
    return facts


def _phases(written: Written, is_bound: bool) -> Table:
    rows = [
        (
            row.name,
            unseen.at_least(units.bytes_(row.app), is_bound and row.app is not None),
            units.bytes_(row.dirtied),
            *(_size(size) for size in (row.data, row.metadata, row.journal, row.zeroed + row.other)),
            _factor(row),
        )
        for row in written.phases[:MOST_PHASES]
    ]
    heads = ("<phase", "application", "dirtied", "data", "metadata", "journal", "other", "factor")
    return Table(heads, rows)


def _size(size: int) -> str:
    return units.bytes_(size) if size else "-"


def _factor(row: WrittenRow) -> str:
    return units.figures(row.amplification) if row.amplification is not None else "-"


def _notes(run: Run, written: Written, results: Results) -> list[str]:
    whole, notes = written.whole, []
    if whole.app is None:
        notes.append(f"the application's bytes are not known: {results.app.absent}")
    if whole.dirtied is None:
        notes.append(f"dirtied bytes are not known: {run.absent('events')}")
    elif whole.large:
        large = units.percent(whole.large / whole.dirtied if whole.dirtied else None)
        what = (
            "that is little, or nearly all of them were sent, so dirtied holds"
            if written.is_exact
            else "at most that much became dirty, and what was overwritten, deleted or left is one number"
        )
        notes.append(
            f"of {units.bytes_(whole.dirtied)} dirtied {large} % are of folios of more than one page, which"
            f" are dirty as a whole: {what}"
        )
    notes += _apart(written)
    if len(written.phases) > MOST_PHASES:
        notes.append(f"{len(written.phases) - MOST_PHASES} more phases")
    notes += unseen.sentence(results.app.uncounted)
    return notes


SECTIONS = (
    SectionSpec(
        "written",
        "Where the written bytes went",
        710,
        build_written,
        collectors=("block", "calls", "events"),
        counts_all=True,
        explains=(TIME,),
    ),
)
