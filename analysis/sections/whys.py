# SPDX-License-Identifier: BSD-2-Clause
"""Why requests were sent: requests, bytes and latency by cause, what waited for them, causes by phase."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import units
from analysis.measures.origin.requests import PhaseWhy, Whys
from analysis.measures.origin.waited import COMPLETION, EVENT, NOT_SEEN, PAGE
from analysis.measures.results import Results
from analysis.origins.rules import UNKNOWN
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.block import CLASSES
from analysis.tables.load import Tables

# Of the recorder (collectors/recorder/task_context.c).
NO_CALLS = "calls and waits of tasks: not shown by this kernel"
MOST_ROWS = 20
MOST_OF_PHASE = 3
MOST_PHASES = 12
DEFINITION = (
    "why: NAME(): in that call of the submitting task; commit, checkpoint, log force, writeback, ...: in"
    " that event, with its reason; else by the kernel thread, its work item or the bio's end function;"
    " unknown: no rule fits (analysis/origins has the rules). A request of several bios counts for its"
    " first. ended: a thread of the workload woke as the request ended. page: a worker that the request's"
    " end gave work to woke one, at the end of a read or of writeback. event: neither, but the workload"
    " waited for the commit, checkpoint, log force or throttling that the request belongs to, or"
    ' sent it in a call that returns when it is on the disk. All others: not seen, which is not "no".'
    " Q2C: see request latency."
)


def build_whys(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Causes; no section for a run that is older than these."""
    whys = results.origins.whys
    if whys is None:
        return []
    section = Section()
    section.tables.append(_causes(whys, _are_waits_known(whys, run)))
    if written := _written(whys):
        section.tables.append(written)
    if phases := _by_phase(whys, _are_waits_known(whys, run)):
        section.tables.append(phases)
    section.notes += _notes(whys, run)
    section.definition = DEFINITION
    return [section]


def _why_no_calls(run: Run) -> str:
    """Why the block layer was not told who the workload's tasks are, and their calls; empty if it was."""
    if "calls" not in run.asked or run.off("calls"):
        return run.absent("calls")
    block = run.losses.get("block")
    return NO_CALLS if block is not None and block.notes.get(NO_CALLS) else ""


def _are_waits_known(whys: Whys, run: Run) -> bool:
    """Whether a request that nobody waited for can be told from one that nobody looked at."""
    return not _why_no_calls(run) or any(sum(row.waited) > row.waited[NOT_SEEN] for row in whys.rows)


def _causes(whys: Whys, has_waits: bool) -> Table:
    rows = []
    for row in whys.rows[:MOST_ROWS]:
        rows.append(
            (
                row.why,
                units.count(row.requests),
                _size(row.read_bytes),
                _size(row.write_bytes),
                units.percent(row.waited[COMPLETION] / row.requests if has_waits else None),
                units.percent(row.waited[PAGE] / row.requests if has_waits else None),
                units.percent(row.waited[EVENT] / row.requests if has_waits else None),
                units.ns(row.mean_ns),
                units.ns(row.p99_ns),
            )
        )
    heads = (
        "<why",
        "requests",
        "read",
        "written",
        "wait %:\nended",
        "&page",
        "&event,\ncall",
        "Q2C\nmean",
        "&\np99",
    )
    return Table(heads, rows, least_left=14)


def _written(whys: Whys) -> Table | None:
    """Bytes written by cause and class, and discarded or zeroed; none if there are none."""
    shown = [i for i, _ in enumerate(CLASSES) if any(row.written_by_class[i] for row in whys.rows)]
    written = sum(row.write_bytes for row in whys.rows)
    has_others = any(row.other_bytes for row in whys.rows)
    rows = [
        (
            row.why,
            *(_size(row.written_by_class[i]) for i in shown),
            units.percent(row.write_bytes / written if written else None),
            *([_size(row.other_bytes)] if has_others else []),
        )
        for row in whys.rows[:MOST_ROWS]
        if row.write_bytes or row.other_bytes
    ]
    heads = ("<written", *(CLASSES[i] for i in shown), "% of all", *(["zeroed or\ndiscarded"] * has_others))
    return Table(heads, rows, least_left=20) if rows else None


def _size(size: int) -> str:
    return units.bytes_(size) if size else "-"


def _by_phase(whys: Whys, has_waits: bool) -> Table | None:
    """The causes with most bytes of each phase; none if there is one phase or no cause."""
    phases = list(dict.fromkeys(row.phase for row in whys.by_phase))
    if len(phases) < 2:
        return None
    rows = [row for phase in phases[:MOST_PHASES] for row in _of_phase(whys.by_phase, phase, has_waits)]
    return Table(("<phase", "<why", "requests", "read", "written", "waited %"), rows)


def _of_phase(rows: list[PhaseWhy], phase: str, has_waits: bool) -> Iterator[tuple[str, ...]]:
    for i, row in enumerate([row for row in rows if row.phase == phase][:MOST_OF_PHASE]):
        yield (
            "" if i else phase,
            row.why,
            units.count(row.requests),
            _size(row.read_bytes),
            _size(row.write_bytes),
            units.percent(row.waited / row.requests if has_waits else None),
        )


def _notes(whys: Whys, run: Run) -> list[str]:
    notes = []
    if why := _why_no_calls(run):
        notes.append(f"calls, and what the workload waited for, are not known: {why}")
    if "events" not in run.asked or run.off("events"):
        notes.append(f"events and their reasons are not known: {run.absent('events')}")
    notes += [
        f"every request is in one row: {whys.requests:,} requests, {units.bytes_(whys.bytes)}, as in"
        " throughput"
    ]
    if more := whys.rows[MOST_ROWS:]:
        notes.append(
            f"{len(more)} more causes: {sum(row.requests for row in more):,} requests,"
            f" {units.bytes_(sum(row.bytes for row in more))}"
        )
    if len(phases := dict.fromkeys(row.phase for row in whys.by_phase)) > MOST_PHASES:
        notes.append(f"{len(phases) - MOST_PHASES} more phases")
    if whys.by_phase and len(phases) > 1:
        notes.append(f"by phase: the {MOST_OF_PHASE} causes with most bytes, by time of completion")
    if _are_waits_known(whys, run) and whys.requests:
        share = units.percent(whys.not_seen / whys.requests)
        notes.append(f"not seen that the workload waited for it: {share} % of requests")
    notes.append(_unknown(whys))
    return notes


def _unknown(whys: Whys) -> str:
    row = whys.row(UNKNOWN)
    if row is None:
        return "unknown: none"
    kinds = "; ".join(
        f"{kind.comm}{f', work {kind.work}' if kind.work else ''}"
        f"{f', end {kind.end_io}' if kind.end_io else ''}: {kind.requests:,} requests"
        for kind in whys.unknown
    )
    share = units.percent(row.bytes / whys.bytes if whys.bytes else 0.0)
    return (
        f"unknown: {units.percent(row.requests / whys.requests)} % of requests, {share} % of bytes ({kinds})"
    )


SECTIONS = (
    SectionSpec(
        "whys",
        "Why requests were sent",
        720,
        build_whys,
        collectors=("block",),
        of_disks=True,
        counts_all=True,
        explains=(DEVICE,),
    ),
)
