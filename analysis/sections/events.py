# SPDX-License-Identifier: BSD-2-Clause
"""File-system events: number and time by kind and reason, the phases of commits, what the kernel hides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis import units
from analysis.measures.origin.events import EventResults, EventRow, Longest
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.device_number import device_text
from analysis.rundir.run import Run
from analysis.sections.spec import EVENTS, SectionSpec
from analysis.tables import event_kind
from analysis.tables.event_kind import EventKind
from analysis.tables.load import Tables

MOST_LONGEST = 6
MOST_OTHERS = 4
# Of these file systems a kernel shows no events of their own: only writeback, throttling and reclaim.
SILENT = ("ext2", "jfs", "reiserfs", "vfat", "exfat", "ntfs3", "fuseblk")
# Kinds of events that a file system alone has begin with this.
OWN_KINDS = {"ext3": "jbd2_", "ext4": "jbd2_", "xfs": "xfs_", "btrfs": "btrfs_", "f2fs": "f2fs_"}
# What the tracepoints of a file system do not tell.
HIDDEN = {
    "btrfs": "kernels before 7.2 show the end of a Btrfs commit only; scrub, balance, superblocks and"
    " asynchronous discards have no tracepoint",
    "xfs": "of XFS's log forces that wait for no log buffer the end is not shown; a log write without a"
    " force was due to its size",
    "nilfs2": "nilfs2 shows only its cleaner's stages",
}
WANTED = ("btrfs_ticket", "btrfs_flush_space", "xfs_grant_sleep")  # bytes are of the room that was asked for
DEFINITION = (
    "time: sum of the lengths; where several threads are in such events at once it exceeds the time"
    " under way. under way: share of the recording in which at least one was. An event that began before"
    " the recording or ended after it counts with the part inside. bytes: to the journal (jbd2_commit),"
    " written by the flusher (writeback), dirtied since the pause before (dirty_throttle), freed"
    " (direct_reclaim). dirty_throttle: a pause of a writer, as long as the kernel planned it."
    " writeback_inode: an inode of a round with many pages or a long time. asked before: from the request"
    " for a commit to its begin; running: age of the transaction; locked: waiting for open handles;"
    " flushing: data that must be sent first; logging: until the commit record is on the disk. to the log:"
    " until a force waits for a log buffer; log write: until that is written."
)


def build_events(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Kinds of events; no section for a run that is older than these."""
    events = results.origins.events
    if events is None:
        # the collector is missing in older runs, which are not worth a word
        return [Section(absent=run.absent("events"))] if "events" in run.asked else []
    section = Section()
    if events.rows:
        section.tables.append(_kinds(events, results))
        if events.phases:
            section.tables.append(_phases(events))
    else:
        section.notes.append("none occurred")
    section.notes += [
        _longest(kind, events.longest[kind], results)
        for kind in [row.kind for row in events.rows if row.max_ns][:MOST_LONGEST]
    ]
    section.notes += [
        f"{row.open:,} {row.kind}: end not seen, counted without a length" for row in events.rows if row.open
    ]
    if events.others:
        shown = ", ".join(f"{device_text(dev)} {n:,}" for dev, n in list(events.others.items())[:MOST_OTHERS])
        count = sum(events.others.values())
        section.notes.append(f"left out: {count:,} events of other file systems, by device ({shown})")
    kinds = tables.get(event_kind.TABLE)
    section.notes += _not_shown(run, kinds if kinds is not None else {})
    section.definition = DEFINITION
    return [section]


def _not_shown(run: Run, kinds: Mapping[str, EventKind]) -> list[str]:
    """What this kernel, or this file system, does not tell."""
    filesystem = run.text("filesystem", "name")
    own = OWN_KINDS.get(filesystem, "")
    others = tuple(set(OWN_KINDS.values()) - {own})
    hidden: dict[str, list[str]] = {}
    for kind, shown in kinds.items():
        if not shown.is_shown and not kind.startswith(others):
            hidden.setdefault(shown.why or "not known why", []).append(kind)
    notes = [f"not shown: {', '.join(names)} ({why})" for why, names in hidden.items()]
    if filesystem in SILENT:
        notes.append(
            f"{filesystem} has no tracepoints: its commits and log writes are not shown here; their requests"
            " are under why requests were sent, by thread and end function"
        )
    elif filesystem in HIDDEN:
        notes.append(HIDDEN[filesystem])
    return notes


def _kinds(events: EventResults, results: Results) -> Table:
    whole_ns = results.timeline.edges_ns[-1] - results.timeline.edges_ns[0]
    rows = [cells for row in events.rows for cells in _of_kind(row, events, int(whole_ns))]
    heads = ("<event", "number", "time", "under\nway %", "mean", "p99", "longest", "bytes")
    return Table(heads, rows, least_left=20)


def _of_kind(row: EventRow, events: EventResults, whole_ns: int) -> Iterator[tuple[str, ...]]:
    """The kind, and below it its reasons, if there are several."""
    reasons = events.by_why[row.kind]
    if len(reasons) == 1:
        why = reasons[0].why
        yield (f"{row.kind}, {why}" if why not in ("", "none") else row.kind, *_cells(row, whole_ns))
        return
    yield (row.kind, *_cells(row, whole_ns))
    for reason in reasons:
        yield (f"  {'no reason' if reason.why in ('', 'none') else reason.why}", *_cells(reason, whole_ns))


def _cells(row: EventRow, whole_ns: int) -> tuple[str, ...]:
    number = units.count(row.count)
    size = units.bytes_(row.bytes) if row.bytes and row.kind not in WANTED else "-"
    if not row.max_ns:
        return number, "-", "-", "-", "-", "-", size
    return (
        number,
        units.ns(row.total_ns),
        units.percent(row.covered_ns / whole_ns),
        units.ns(row.mean_ns),
        units.ns(row.p99_ns),
        units.ns(row.max_ns),
        size,
    )


def _phases(events: EventResults) -> Table:
    rows = [
        (row.kind, row.phase, units.ns(row.total_ns), units.ns(row.mean_ns), units.ns(row.max_ns))
        for row in events.phases
    ]
    return Table(("<event", "<phase", "time", "mean", "longest"), rows)


def _longest(kind: str, longest: Longest, results: Results) -> str:
    at_s = (longest.start_ns - results.timeline.zero_ns) / 1e9
    why = f", {longest.why}" if longest.why not in ("", "none") else ""
    asked = f", asked by {longest.asker_call}()" if longest.asker_call not in ("", "none") else ""
    return f"longest {kind}: {units.ns(longest.length_ns)} at {at_s:.2f} s{why}{asked}, in {longest.comm}"


SECTIONS = (
    SectionSpec(
        "events", "File-system events", 730, build_events, collectors=("events",), explains=(EVENTS,)
    ),
)
