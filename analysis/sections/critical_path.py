# SPDX-License-Identifier: BSD-2-Clause
"""The critical path: what the workload's progress waited for, for how long, and how sure that is."""

from __future__ import annotations

from analysis import units
from analysis.measures.at_device.split import DeviceTime
from analysis.measures.critical_path.causes import ON_CPU, READY
from analysis.measures.critical_path.ends import (
    GROUPS,
    End,
    apparatus_time,
    ends,
    sums_by,
    text_of,
)
from analysis.measures.critical_path.files import FileShare
from analysis.measures.critical_path.results import KEPT_PIECES_MOST, NoPath, PathResults
from analysis.measures.disk.states import WORDS, State
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, clean
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables.load import Tables

LEAST_SHARE = 0.001  # of the path: smaller rows are summed up
TOP_ENDS = 18
TOP_WAITS = 8
TOP_EVENTS = 5
TOP_REQUESTS = 6
TOP_FILES = 6
IN_THE_END = 3
LEAST_HELD_UP = 0.05  # of the path: a sentence says that the apparatus held it up
LEAST_PHASE = 0.02  # of the path: a phase with less has no row
NAME_LETTERS = 24
DEFINITION = (
    "for each instant of a thread's time: what it waited for in the end. A thread that sleeps waits for"
    " whoever woke it, and that one, while it slept, for whoever woke it; a completed request for its device,"
    " its queue, and before that its submitter; a runnable thread for whoever had the CPU. An instant counts"
    " once: the rows sum to the time of the path. One thread: the workload's longest, if no more than 1.5"
    " threads are at work on average (not asleep of their own will), and it does not mostly pause; else the"
    " sum over those at work: n threads at once are n seconds a second (Little's law). most of one: of one"
    " event or request, the waits of all threads together."
)


def build_critical_path(run: Run, tables: Tables, results: Results) -> list[Section]:
    """No section for a run from before switches, or that was not asked for them."""
    path = results.path
    if isinstance(path, NoPath):
        if not path.why and "sched" not in run.asked:
            return []
        return [Section(absent=path.why or run.absent("sched"))]
    section = Section()
    section.facts.append(("path of", _whose(path)))
    section.tables.append(_ends(path))
    for table in (
        _at_disk(path, results.device_time),
        _own_waits(path),
        _events(path),
        _requests(path),
        _files(path, tables),
        _phases(path, tables),
    ):
        if table is not None:
            section.tables.append(table)
    section.notes += [*_apparatus(path), *_coverage(path)]
    if path.rows is None:
        section.notes.append(
            f"critical_path.parquet is left out: the path has {path.pieces:,} pieces, the file up to"
            f" {KEPT_PIECES_MOST:,}"
        )
    section.definition = DEFINITION
    return [section]


def _whose(path: PathResults) -> str:
    wall = units.seconds(path.wall_ns / 1e9)
    at_work = f"{path.at_work:.2f} threads at work on average"
    if path.is_one:
        return (
            f"1 thread, {clean(path.name, NAME_LETTERS)}, {units.seconds(path.total_ns / 1e9)} s; {at_work}"
        )
    mean = path.total_ns / path.wall_ns if path.wall_ns else 0
    return f"{path.roots:,} threads, {mean:.2f} at once over {wall} s; {at_work}"


def _share(ns: int, path: PathResults) -> str:
    return units.percent(ns / path.total_ns if path.total_ns else None)


def _times(ns: int, path: PathResults) -> tuple[str, ...]:
    """Time and share; of several threads also how many there were at once."""
    if path.is_one:
        return units.ns(ns), _share(ns, path)
    at_once = f"{ns / path.wall_ns:.2f}" if path.wall_ns else "-"
    return units.ns(ns), _share(ns, path), at_once


def _heads(path: PathResults) -> tuple[str, ...]:
    return ("time", "%") if path.is_one else ("time", "%", "threads")


def _most(path: PathResults) -> str:
    """Heading for the most time of one event or request, which several threads may wait for at once."""
    return "longest" if path.is_one else "most\nof one"


def _names(end: End) -> str:
    """The name with most of the time, and how many more there are."""
    names = [clean(name, NAME_LETTERS) for name, _ in end.names() if name]
    if not names:
        return ""
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else names[0]


def _at_disk(path: PathResults, at: DeviceTime | None) -> Table | None:
    """What emulated disks did while the path was at their requests, by class of what they served then."""
    if at is None or not at.head_ns:
        return None
    times = [(ns, WORDS[state], class_) for (state, class_), ns in at.head_ns.items()]
    times.append((max(at.at_head_ns - sum(at.head_ns.values()), 0.0), WORDS[State.IDLE], ""))
    least = LEAST_SHARE * path.total_ns
    rows = [
        (*_times(round(ns), path), word, class_)
        for ns, word, class_ in sorted(times, reverse=True)
        if ns >= least
    ]
    if not rows:
        return None
    return Table((*_heads(path), "<of it at the emulated disk, which was", "<for"), rows[:TOP_ENDS])


def _ends(path: PathResults) -> Table:
    all_ends = ends(path.shares)
    least = LEAST_SHARE * path.total_ns
    longest = sorted((end.ns for end in all_ends), reverse=True)[:TOP_ENDS]
    shown = [end for end in all_ends if end.ns >= max(least, longest[-1])]
    rest_ns = sum(end.ns for end in all_ends) - sum(end.ns for end in shown)
    rows = [
        (
            *_times(end.ns, path),
            ("~ " if end.weak_ns * 2 > end.ns else "") + end.text,
            _names(end),
        )
        for end in shown
    ]
    if rest_ns:
        rows.append((*_times(rest_ns, path), f"{len(all_ends) - len(shown)} more, each less", ""))
    return Table((*_heads(path), "<waited for in the end", "<by"), rows, least_left=18)


def _own_waits(path: PathResults) -> Table | None:
    """What the workload's threads slept for by their own stacks, and what that came down to."""
    by_cause: dict[str, list[int]] = {}
    for waits in path.own_waits:
        sums = by_cause.setdefault(waits.waited.cause, [0, 0, 0])
        sums[0], sums[1], sums[2] = sums[0] + waits.count, sums[1] + waits.ns, max(sums[2], waits.max_ns)
    in_the_end = sums_by(
        (share for share in path.shares if share.own.cause not in (ON_CPU, READY)),
        lambda share: share.own.cause,
    )
    rows = []
    for cause, (count, ns, max_ns) in sorted(by_cause.items(), key=lambda item: -item[1][1])[:TOP_WAITS]:
        if ns < LEAST_SHARE * path.total_ns:
            continue
        ends = sorted(in_the_end.get(cause, {}).items(), key=lambda item: -item[1])
        shown = [f"{group} {units.ns(time)}" for group, time in ends[:IN_THE_END]]
        rows.append(
            (*_times(ns, path), units.count(count), units.ns(max_ns), text_of(cause), ", ".join(shown))
        )
    heads = (*_heads(path), "sleeps", "longest", "<the workload waited for", "<that was in the end")
    return Table(heads, rows, least_left=18) if rows else None


def _events(path: PathResults) -> Table | None:
    rows = [
        (
            *_times(share.ns, path),
            units.count(share.count),
            units.ns(share.max_ns),
            share.kind.replace("_", " ") + ("" if share.is_own else ", other fs"),
            "" if share.why == "none" else share.why,
        )
        for share in path.events[:TOP_EVENTS]
        if share.ns >= LEAST_SHARE * path.total_ns
    ]
    return Table((*_heads(path), "events", _most(path), "<through", "<why"), rows) if rows else None


def _requests(path: PathResults) -> Table | None:
    rows = [
        (
            units.seconds(share.device_ns / 1e9),
            units.seconds(share.queue_ns / 1e9),
            units.count(share.count),
            units.ns(share.max_ns),
            share.label,
            clean(share.comm, NAME_LETTERS),
        )
        for share in path.requests[:TOP_REQUESTS]
        if share.device_ns + share.queue_ns >= LEAST_SHARE * path.total_ns
    ]
    heads = ("device s", "queue s", "requests", _most(path), "<requests that were waited for", "<of")
    return Table(heads, rows) if rows else None


def _files(path: PathResults, tables: Tables) -> Table | None:
    """Files, and classes of requests without a file: the longest waits, and the sum of the others."""
    missing = ", gone" if tables.paths is not None else ""
    shown = [share for share in path.files[:TOP_FILES] if share.ns >= LEAST_SHARE * path.total_ns]
    if not any(share.ino for share in shown):
        return None
    rows = [
        (
            units.seconds(share.device_ns / 1e9),
            units.seconds(share.queue_ns / 1e9),
            _share(share.ns, path),
            units.count(share.count),
            units.ns(share.max_ns),
            share.request.partition(" ")[0],
            clean(share.path) or (f"inode {share.ino}{missing}" if share.ino else _class(share)),
        )
        for share in shown
    ]
    if rest := path.files[len(shown) :]:
        rows.append(
            (
                units.seconds(sum(share.device_ns for share in rest) / 1e9),
                units.seconds(sum(share.queue_ns for share in rest) / 1e9),
                _share(sum(share.ns for share in rest), path),
                units.count(sum(share.count for share in rest)),
                units.ns(max(share.max_ns for share in rest)),
                "",
                f"{len(rest):,} more",
            )
        )
    heads = ("device s", "queue s", "%", "requests", "longest", "<", "<file, or class without one")
    return Table(heads, rows)


def _class(share: FileShare) -> str:
    return share.request.partition(" ")[2] or "-"


def _phases(path: PathResults, tables: Tables) -> Table | None:
    """Seconds by phase and group, in the order of the phases."""
    order = [] if tables.phases is None else tables.phases.name
    sums = sums_by(path.shares, lambda share: share.phase)
    shown = {name: one for name, one in sums.items() if sum(one.values()) >= LEAST_PHASE * path.total_ns}
    if len(shown) < 2:
        return None
    used = [group for group in GROUPS if any(one.get(group) for one in shown.values())]
    rows = [
        (
            clean(name, NAME_LETTERS) or "(no phase)",
            *(units.seconds(one[group] / 1e9) if one.get(group) else "-" for group in used),
        )
        for name, one in sorted(
            shown.items(), key=lambda item: order.index(item[0]) if item[0] else len(order)
        )
    ]
    heads = ["<s by phase", *(group.replace(" ", "\n") for group in used)]
    return Table(heads, rows)


def _apparatus(path: PathResults) -> list[str]:
    """Whether the apparatus held the workload up, and which parts of it."""
    time = apparatus_time(path.shares)
    if time.ns < LEAST_HELD_UP * path.total_ns:
        return []
    parts = [
        f"{what} {units.seconds(ns / 1e9)} s"
        for what, ns in (
            ("the loop device and the file system below it", time.loop_ns),
            ("a disk below, or another", time.other_disk_ns),
            ("the recorder", time.recorder_ns),
            ("other programs", time.others_ns),
        )
        if ns
    ]
    verb = "was the bottleneck" if time.ns > time.most_ns else "held the workload up"
    return [
        f"the apparatus {verb}: {units.seconds(time.ns / 1e9)} s of the path ({_share(time.ns, path)} %) are"
        f" neither the workload's, nor the file system's, nor the tested disk's: {', '.join(parts)}"
    ]


def _coverage(path: PathResults) -> list[str]:
    """How much is known, and what is missing."""
    coverage = path.coverage
    known = path.total_ns - coverage.unknown_ns - coverage.unrecorded_ns
    parts = [f"known: {_share(known, path)} % of the path"]
    if coverage.unrecorded_ns:
        parts.append(
            f"{_share(coverage.unrecorded_ns, path)} % not recorded ({coverage.windows_given_up:,} stretches"
            " with too many switches)"
        )
    if coverage.weak_ns:
        parts.append(f"{_share(coverage.weak_ns, path)} % rest on a guess (~)")
    if coverage.no_waker:
        parts.append(f"{coverage.no_waker:,} sleeps on it without a wake-up")
    if coverage.deep_chains:
        parts.append(f"{coverage.deep_chains:,} chains cut")
    notes = ["; ".join(parts)]
    facts = []
    if coverage.sleeps:
        share = coverage.sleeps_without_waker / coverage.sleeps
        facts.append(f"{units.percent(share)} % of {coverage.sleeps:,} sleeps of all threads have no wake-up")
    if coverage.completions:
        share = coverage.completions_named / coverage.completions
        facts.append(
            f"{units.percent(share)} % of {coverage.completions:,} completions that woke a thread name their"
            " request"
        )
    return notes + (["; ".join(facts)] if facts else [])


SECTIONS = (
    SectionSpec(
        "critical_path",
        "The critical path",
        205,
        build_critical_path,
        essential=True,
        collectors=("sched",),
        explains=(TIME,),
    ),
)
