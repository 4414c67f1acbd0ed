# SPDX-License-Identifier: BSD-2-Clause
"""What emulated disks did: how their time divides, for which requests, hits of the cache, lateness."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import units
from analysis.measures.disk.results import LATE_NS, DiskResults, KindRow
from analysis.measures.disk.states import BUSY, DEFINITION, HEAD, WORDS, State
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SEEKS, SectionSpec
from analysis.tables.block import CLASSES
from analysis.tables.load import Tables

LATENESS = (
    " late: the moment of the reply less the one due by the model; a disk keeps time if 99 % of its replies"
    f" are at most {units.ns(LATE_NS)} late."
)
KINDS = (
    " By kind: destage: cached writes go to the platter, with the class of the write; media: from or to the"
    " platter; own: from when the disk turned to it to its end; took: from its arrival. Sums over rows, s;"
    " those of the electronics pass beside the head's."
)


def build_disk_service(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One section for all emulated disks; none for a run without."""
    found = results.disks
    if found is None or found.joined is None:
        return []
    section = Section()
    for disk in found.disks:
        section.facts += _facts(disk)
    section.tables.append(_division(found.disks))
    section.tables += filter(None, (_classes(disk, len(found.disks) > 1) for disk in found.disks))
    section.tables += [_kinds(disk, len(found.disks) > 1) for disk in found.disks if disk.kinds]
    section.tables.append(_lateness(found.disks))
    section.notes += [note for disk in found.disks for note in _notes(disk)]
    if found.joined.unmatched:
        section.notes.append(
            f"{units.counted(found.joined.unmatched, 'request')} of the disk's record not in the block table:"
            " of no known class"
        )
    if found.joined.without_row and tables.block is not None:
        section.notes.append(
            f"{units.counted(found.joined.without_row, 'request')} of the block table are not in the disk's"
            " record"
        )
    section.definition = DEFINITION + KINDS + LATENESS
    return [section]


def _facts(disk: DiskResults) -> Iterator[tuple[str, str]]:
    if disk.disk is None:
        return
    served = f"served by {disk.disk.transport}" if disk.disk.transport else ""
    why = f" ({disk.disk.why})" if disk.disk.why and served else ""
    yield disk.label, ", ".join(filter(None, (disk.disk.drive, f"{served}{why}", _speed(disk))))


def _speed(disk: DiskResults) -> str:
    if disk.disk is None or not disk.disk.is_scaled:
        return ""
    return f"{disk.disk.time:g} times as fast as the drive (TIME=)"


def _s(ns: float) -> str:
    return units.seconds(ns / 1e9)


def _division(disks: list[DiskResults]) -> Table:
    """One row a disk and one for its destages: seconds and shares of each state."""
    heads = ("<disk", *(f"{WORDS[state]}, s" for state in State), *(f"{WORDS[state]} %" for state in State))
    rows = []
    for disk in disks:
        seconds = [_s(disk.state_ns[state]) for state in State]
        rows.append((disk.label, *seconds, *(units.percent(disk.share(state)) for state in State)))
        if any(disk.destage_ns.values()):
            of_destages = [disk.destage_ns[state] for state in BUSY]
            shares = [units.percent(ns / disk.span_ns if disk.span_ns else None) for ns in of_destages]
            rows.append(("  of it destages", *map(_s, of_destages), "", *shares, ""))
    return Table(heads, rows)


def _classes(disk: DiskResults, is_named: bool) -> Table | None:
    """Seconds of the head by class of what it served."""
    names = {class_ for _, class_ in disk.class_ns}
    if not names:
        return None
    head = f"<{disk.label}: for" if is_named else "<the head, for"
    rows = []
    for name in [*(name for name in CLASSES if name in names), *sorted(names - {*CLASSES})]:
        times = [disk.class_ns.get((state, name), 0) for state in HEAD]
        if any(times):
            rows.append((name, *map(_s, times), _s(sum(times))))
    return Table((head, *(f"{WORDS[state]}, s" for state in HEAD), "all, s"), rows) if rows else None


def _kinds(disk: DiskResults, is_named: bool) -> Table:
    heads = (
        f"<{disk.label}" if is_named else "<kind",
        "number",
        "media",
        "cache",
        "read\nahead",
        "bytes",
        "overhead,\ns",
        "seek, s",
        "rotation,\ns",
        "transfer,\ns",
        "flush\nwait, s",
        "own,\nmean",
        "took,\nmean",
    )
    return Table(heads, [_kind_row(row) for row in disk.kinds])


def _kind_row(row: KindRow) -> tuple[str, ...]:
    return (
        f"{row.op} {row.class_}".rstrip(),
        units.count(row.rows),
        *(units.count(number) for number in (row.media, row.cache, row.read_ahead)),
        units.bytes_(row.sectors * 512),
        *map(_s, (row.overhead_ns, row.seek_ns, row.rotation_ns, row.transfer_ns, row.wait_ns)),
        units.ns(row.own_ns),
        units.ns(row.took_ns),
    )


def _lateness(disks: list[DiskResults]) -> Table:
    """One row a disk: of the replies in the recorded time, and whether it kept time over all its life."""
    rows = []
    for disk in disks:
        late = disk.lateness
        times = (late.p50_ns, late.p99_ns, late.most_ns) if late is not None else (None, None, None)
        rows.append(
            (
                disk.label,
                units.count(late.replies if late is not None else 0),
                *(units.ns(ns) for ns in times),
                units.count(late.over if late is not None else None),
                {True: "yes", False: "no", None: "-"}[disk.is_kept],
                units.ns(
                    disk.disk.kept.cpu_ns if disk.disk is not None and disk.disk.kept is not None else None
                ),
            )
        )
    heads = (
        "<late",
        "replies",
        "p50",
        "p99",
        "max",
        f"over\n{units.ns(LATE_NS)}",
        "kept time",
        "server's\nCPU",
    )
    return Table(heads, rows)


def _notes(disk: DiskResults) -> Iterator[str]:
    asked = sum(row.rows for row in disk.kinds if row.op == "read")
    ahead = sum(row.read_ahead for row in disk.kinds if row.op == "read")
    cached = sum(row.cache for row in disk.kinds if row.op == "read")
    if asked:
        yield (
            f"{disk.label}: of {units.counted(asked, 'read')} {units.percent(ahead / asked)} % came from"
            f" read-ahead, {units.percent(cached / asked)} % from the write cache"
        )
    flushes = next((row for row in disk.kinds if row.op == "flush"), None)
    if flushes is not None:
        count = f"{flushes.rows:,} flush{'' if flushes.rows == 1 else 'es'}"
        yield f"{disk.label}: {count} waited {_s(flushes.wait_ns)} s for destages"
    if disk.disk is not None and disk.disk.is_scaled:
        times = f"{disk.disk.time:g}"
        yield (
            f"{disk.label}: its time passed {times} times as fast as the clock: on the drive, these times are"
            f" {times} times as long"
        )
    if disk.unsound:
        count = units.counted(disk.unsound, "row")
        yield f"{disk.label}: {count} with times that no disk can have: left out"


SECTIONS = (
    SectionSpec(
        "disk_service",
        "What the disk did",
        780,
        build_disk_service,
        collectors=("disk_service",),
        of_disks=True,
        counts_all=True,
        explains=(DEVICE, SEEKS),
    ),
)
