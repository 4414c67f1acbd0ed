# SPDX-License-Identifier: BSD-2-Clause
"""Where the threads' time went: on CPUs, waiting for one, asleep for which cause; the apparatus apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import units
from analysis.causes.roles import DISK, FILESYSTEM, OTHER, RECORDER, WORKLOAD
from analysis.measures.locks.lock_names import path_label
from analysis.measures.results import Results
from analysis.measures.threads.over_time import SERIES, series_of
from analysis.measures.threads.parts import VOLUNTARY, Part, text_of
from analysis.measures.threads.results import ThreadResults, ThreadRow
from analysis.measures.threads.truth import Agreement
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, clean
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables.load import Tables

LEAST_SHARE = 0.001  # rows with less are summed up
TOP = 14
PLACE_LETTERS = 27
TOP_THREADS = 4  # of each role of the apparatus
TOP_PROGRAMS = 8
TOP_UNKNOWN = 5
MOST_OF_CPUS = 1.01  # more CPU time than this share of the CPUs' can't be
LEAST_HELD_UP = 0.05  # of the workload's time: a sentence says who kept it from running
BUSY_CPUS = 0.8  # CPUs of the disk's machinery from which on it may be the bottleneck
ROLE_TEXTS = {
    WORKLOAD: "workload",
    FILESYSTEM: "file system",
    DISK: "disk's machinery",
    RECORDER: "recorder",
    OTHER: "others",
}
SERIES_HEADS = {"user": "own code"}
HELD_UP_BY = {"kernel": "kernel threads", "recorder": "the recorder", "other": "other programs"}
UNSURE_BLKIO = (
    "the kernel's own count of block I/O delay is wrong here, and not compared for {threads} threads: this"
    " kernel notes the begin of such a sleep in whichever thread runs as the sleeper leaves its queue"
    " (delayed dequeue)"
)
TOO_MUCH = "; more than there is: some threads' way off a CPU was not seen, so they stayed on it"
DEFINITION = (
    "time: of all threads of the role together; %: of their time without waits of their own will (no"
    " work, children, sleep, pipes). waits: that ended; in: the function that the kernel stack names, by the"
    " rules of analysis/causes. on a CPU: split by CPU samples into own code, kernel, softirqs, spinning."
    " ready: runnable, by what ran on that CPU meanwhile. The kernel's own counts: run time and run delay of"
    " /proc/PID/schedstat, I/O delay of taskstats."
)


def build_threads(run: Run, tables: Tables, results: Results) -> list[Section]:
    """No section for a run from before thread times, or that was not asked for them."""
    threads = results.threads
    if threads is None and "threads" not in run.asked:
        return []
    section = Section()
    if threads is None:
        section.absent = run.absent("threads")
        return [section]
    if not threads.parts:
        section.notes.append("no thread was seen")
        return [section]
    for role in (WORKLOAD, FILESYSTEM):
        if table := _by_cause(threads, role):
            section.tables.append(table)
    if table := _programs(threads):
        section.tables.append(table)
    if table := _by_phase(threads):
        section.tables.append(table)
    if table := _apparatus(threads):
        section.tables.append(table)
    if table := _unknown(threads, tables.stacks):
        section.tables.append(table)
    section.notes += [
        *_bottlenecks(threads),
        *_unknown_notes(threads),
        *_cpu_notes(threads),
        *_truth_notes(threads),
    ]
    section.definition = DEFINITION
    return [section]


def _by_cause(threads: ThreadResults, role: str) -> Table | None:
    """One row a kind of time, most time first; what the threads did of their own will last."""
    parts = threads.of(role)
    if not parts:
        return None
    busy_ns = sum(part.ns for part in parts if part.kind not in VOLUNTARY)
    rows = []
    shown = [part for part in parts if part.kind not in VOLUNTARY and part.ns >= LEAST_SHARE * busy_ns][:TOP]
    rest = [part for part in parts if part.kind not in VOLUNTARY and part not in shown]
    for part in shown:
        rows.append(_row(part, busy_ns, _places(threads, part)))
    if rest:
        longest = max(part.max_ns for part in rest)
        rest_ns = sum(part.ns for part in rest)
        share = units.percent(rest_ns / busy_ns if busy_ns else None)
        rows.append((units.ns(rest_ns), share, "", units.ns(longest), f"{len(rest)} more, each less", ""))
    for part in (part for part in parts if part.kind in VOLUNTARY):
        rows.append((units.ns(part.ns), "", units.count(part.count), "", f"({text_of(part.kind)})", ""))
    whose = ROLE_TEXTS[role]
    return Table(("time", "%", "waits", "longest", f"<{whose}", "<in"), rows)


def _row(part: Part, all_ns: int, places: str) -> tuple[str, ...]:
    share = units.percent(part.ns / all_ns if all_ns else None)
    if part.is_on_cpu:
        return (units.ns(part.ns), share, "", "", text_of(part.kind), "")
    return (
        units.ns(part.ns),
        share,
        units.count(part.count),
        units.ns(part.max_ns),
        text_of(part.kind),
        places,
    )


def _places(threads: ThreadResults, part: Part) -> str:
    """The function with most of the part's time, and how many more there are."""
    if part.is_on_cpu or part.is_ready:
        return ""
    places = [one for one in threads.places if (one.role, one.kind) == (part.role, part.kind) and one.place]
    if not places:
        return ""
    more = f" +{len(places) - 1}" if len(places) > 1 else ""
    name, most = clean(places[0].place), PLACE_LETTERS - len(more)
    return f"{name if len(name) <= most else name[: most - 2] + '..'}{more}"


def _programs(threads: ThreadResults) -> Table | None:
    """The workload's threads by name, if there are several names."""
    mine = [row for row in threads.rows if row.role == WORKLOAD]
    if len(mine) < 2:
        return None
    rows = [
        (clean(row.name, 30), units.count(row.threads), *map(units.ns, _times(row)))
        for row in mine[:TOP_PROGRAMS]
    ]
    if rest := mine[TOP_PROGRAMS:]:
        sums = map(sum, zip(*map(_times, rest), strict=True))
        rows.append((f"{len(rest)} more", "", *map(units.ns, sums)))
    return Table(("<workload, by name", "n", "on CPU", "ready", "blocked", "own will"), rows)


def _times(row: ThreadRow) -> tuple[int, int, int, int]:
    return row.cpu_ns, row.ready_ns, row.blocked_ns, row.voluntary_ns


def _by_phase(threads: ThreadResults) -> Table | None:
    """Thread seconds of the workload by phase and group of causes."""
    if len(threads.phases) < 2:
        return None
    sums = []
    for phase in threads.phases:
        of_phase = dict.fromkeys(SERIES, 0)
        for part in phase.parts:
            if series := series_of(part.kind):
                of_phase[series] += part.ns
        sums.append(of_phase)
    used = [key for key in SERIES if any(one[key] for one in sums)]
    rows = [
        (phase.name, *(units.seconds(one[key] / 1e9) if one[key] else "-" for key in used))
        for phase, one in zip(threads.phases, sums, strict=True)
    ]
    return Table(("<s by phase", *(SERIES_HEADS.get(key, key) for key in used)), rows)


def _apparatus(threads: ThreadResults) -> Table | None:
    """Threads that are neither the workload's nor the file system's: those with most CPU time, by role."""
    rows = []
    for role in (DISK, RECORDER, OTHER):
        mine = [row for row in threads.rows if row.role == role and row.cpu_ns + row.ready_ns > 0]
        mine.sort(key=lambda row: -row.cpu_ns)
        label = ROLE_TEXTS[role]
        for row in mine[:TOP_THREADS]:
            name, n = clean(row.name, 30), units.count(row.threads)
            rows.append((label, name, n, *map(units.ns, (row.cpu_ns, row.ready_ns, row.blocked_ns))))
            label = ""
        if rest := mine[TOP_THREADS:]:
            sums = [sum(getattr(row, key) for row in rest) for key in ("cpu_ns", "ready_ns", "blocked_ns")]
            rows.append(("", f"{len(rest)} more", "", *map(units.ns, sums)))
    return Table(("<apparatus", "<thread", "n", "on CPU", "ready", "blocked"), rows) if rows else None


def _unknown(threads: ThreadResults, stacks: Mapping[int, list[str]]) -> Table | None:
    rows = [
        (units.ns(one.ns), units.count(one.count), ROLE_TEXTS[one.role], _stack_text(one.stack_id, stacks))
        for one in threads.unknown[:TOP_UNKNOWN]
        if one.ns
    ]
    return (
        Table(("time", "waits", "<of", "<waits that no rule knows, innermost first"), rows) if rows else None
    )


def _stack_text(stack_id: int, stacks: Mapping[int, list[str]]) -> str:
    frames = stacks.get(stack_id)
    return path_label(frames, 5) if frames else "(no stack)"


def _is_disk_busier(threads: ThreadResults) -> bool:
    """Whether the disk's machinery took more CPU time than the file system's own threads."""
    cpu_ns = {
        role: sum(part.ns for part in threads.of(role) if part.is_on_cpu) for role in (DISK, FILESYSTEM)
    }
    return cpu_ns[DISK] > cpu_ns[FILESYSTEM]


def _bottlenecks(threads: ThreadResults) -> list[str]:
    """Sentences on the apparatus, where it held the workload up."""
    parts = threads.of(WORKLOAD)
    busy_ns = sum(part.ns for part in parts if part.kind not in VOLUNTARY)
    notes = []
    for part in (part for part in parts if part.is_ready and part.ns >= LEAST_HELD_UP * max(busy_ns, 1)):
        role = part.kind.partition(":")[2]
        if role not in HELD_UP_BY or (role == "kernel" and not _is_disk_busier(threads)):
            continue
        notes.append(
            f"the apparatus held the workload up: it was ready for {units.ns(part.ns)}"
            f" ({units.percent(part.ns / busy_ns)} % of its time) while {HELD_UP_BY[role]} had the CPU"
        )
    bottleneck = threads.bottleneck
    if bottleneck.disk_cpus is not None and bottleneck.disk_cpus >= BUSY_CPUS:
        notes.append(
            f"the disk's machinery took {bottleneck.disk_cpus:.2f} CPUs in the"
            f" {units.seconds(bottleneck.waiting_s)} s in which most of the workload waited for I/O: the CPU"
            " behind the disk, not a device, may have been the limit"
        )
    return notes


def _unknown_notes(threads: ThreadResults) -> list[str]:
    share = threads.unknown_share(WORKLOAD, FILESYSTEM)
    if share is None:
        return []
    blocked = units.ns(threads.blocked_ns(WORKLOAD, FILESYSTEM))
    return [f"cause not known: {units.percent(share)} % of the {blocked} that these threads were blocked"]


def _cpu_notes(threads: ThreadResults) -> list[str]:
    if not threads.capacity_s:
        return []
    share = units.percent(threads.cpu_s / threads.capacity_s)
    whose = ", ".join(
        f"{ROLE_TEXTS[role]} {units.seconds(cpu_s)}"
        for role in ROLE_TEXTS
        if (cpu_s := sum(part.ns for part in threads.of(role) if part.is_on_cpu) / 1e9) >= 0.005
    )
    return [
        f"CPU time of all threads: {units.seconds(threads.cpu_s)} s of {units.seconds(threads.capacity_s)} s"
        f" ({share} %): {whose}" + (TOO_MUCH if threads.cpu_s > MOST_OF_CPUS * threads.capacity_s else "")
    ]


def _difference(name: str, agreement: Agreement | None) -> str:
    if agreement is None:
        return ""
    if agreement.difference is None:
        return (
            f"{name} 0 by both"
            if not agreement.ours_ns
            else f"{name} {units.ns(agreement.ours_ns)} against 0"
        )
    return f"{name} differs by {units.percent(agreement.difference)} %"


def _truth_notes(threads: ThreadResults) -> list[str]:
    truth = threads.truth
    if truth is None or truth.lifetime is None:
        return []
    compared: Sequence[str] = [
        text
        for name, agreement in (
            ("run time", truth.run),
            ("run delay", truth.run_delay),
            ("I/O delay", truth.blkio),
        )
        if (text := _difference(name, agreement))
    ]
    if truth.impossible_blkio:
        compared = [
            *compared,
            f"I/O delay is wrong in the kernel ({truth.impossible_blkio} beyond the lifetime)",
        ]
    notes = [UNSURE_BLKIO.format(threads=units.count(truth.unsure_blkio))] if truth.unsure_blkio else []
    of = f"of {truth.lifetime.threads:,} threads that lived wholly inside the recording"
    states = f"the states sum to the lifetime within {units.percent(truth.lifetime.difference)} %"
    against = f"; against the kernel's own counts: {', '.join(compared)}" if compared else ""
    return [f"check {of}: {states}{against}", *notes]


SECTIONS = (
    SectionSpec(
        "threads",
        "Where the threads' time went",
        210,
        build_threads,
        essential=True,
        collectors=("threads",),
        explains=(TIME,),
    ),
)
