# SPDX-License-Identifier: BSD-2-Clause
"""The ledger: where the workload's wall time went, in seconds that end in the whole.

    basis "path"     the critical path: each line is what its threads did or waited for, the ends say on whom
    basis "threads"  without a path, or if most of it is not known: the mean over the workload's threads of
                     their time by state and cause

A line of a wait has the cause that the waiter's kernel stack tells (analysis/causes). Time on a CPU and
waiting for one are lines of their own; what is not known is a line, too, the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.causes import rules
from analysis.causes.roles import WORKLOAD
from analysis.measures.critical_path import causes
from analysis.measures.critical_path.ends import (
    APPARATUS,
    READY,
    UNKNOWN,
    UNRECORDED,
    end_of,
    text_of,
)
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.critical_path.share import Share
from analysis.measures.threads.parts import NOT_KNOWN, ON_CPU, VOLUNTARY, Part
from analysis.measures.threads.parts import READY as READY_PART
from analysis.measures.threads.results import ThreadResults

PATH, THREADS = "path", "threads"
CPU, READY_LINE, OTHERS, NOT_EXPLAINED, NOT_RECORDED = "cpu", "ready", "others", "unknown", "unrecorded"
TEXTS = {
    CPU: "on a CPU",
    READY_LINE: "ready to run",
    OTHERS: "the CPU taken by others",
    NOT_EXPLAINED: "not explained",
    NOT_RECORDED: "not recorded",
}
CHILD = "child"  # of VOLUNTARY
LAST = (NOT_EXPLAINED, NOT_RECORDED)
LEAST_LIVED = 0.95  # of the time: threads that lived so long lived all of it, but for a moment at its edges
MOST_UNKNOWN = 0.5  # of the path: with more, the threads' own time tells more than it


@dataclass
class Line:
    """Time with one cause. ns: of the basis, see Ledger.seconds(). ends: ns by group of ends.py."""

    key: str  # of TEXTS, or a cause of analysis/causes
    text: str
    ns: int = 0
    weak_ns: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    shares: list[Share] = field(default_factory=list)


@dataclass(frozen=True)
class Ledger:
    """All lines, longest first, then what is not known."""

    basis: str  # PATH, THREADS; "": neither was recorded, and there are no lines
    why_not: str  # why the basis is not the path
    wall_s: float  # of the workload; of threads of a watched system that lived for less, their mean life
    threads: int  # that the basis is the mean of
    total_ns: int
    lines: list[Line]

    def seconds(self, ns: float) -> float:
        """Time of the basis as seconds of the workload's wall time: of several threads their mean."""
        return ns / self.total_ns * self.wall_s if self.total_ns else 0.0

    def line(self, key: str) -> Line | None:
        """The line of a key."""
        return next((line for line in self.lines if line.key == key), None)

    @property
    def unknown_ns(self) -> int:
        """Time of the lines LAST."""
        return sum(line.ns for line in self.lines if line.key in LAST)

    def shares(self, wanted: Callable[[Share], bool]) -> list[Share]:
        """Shares of the path."""
        return [share for line in self.lines for share in line.shares if wanted(share)]

    def keys(self, wanted: Callable[[Share], bool]) -> frozenset[str]:
        """Keys of the lines that have such shares of the path."""
        return frozenset(line.key for line in self.lines if any(map(wanted, line.shares)))

    def cost_of(self, shares: Sequence[Share]) -> tuple[float, float, float]:
        """cost() of these shares."""
        return self.cost(sum(one.ns for one in shares), sum(one.weak_ns for one in shares))

    def cost(self, ns: int, weak_ns: int = 0) -> tuple[float, float, float]:
        """Value, low and high seconds: without what rests on a guess, and with all that is not known."""
        return (
            self.seconds(ns),
            self.seconds(ns - weak_ns),
            min(self.seconds(ns + self.unknown_ns), self.wall_s),
        )


def usable_path(path: PathResults | NoPath, threads: ThreadResults | None) -> PathResults | NoPath:
    """The path; none if most of it is not known, and the threads' own time is."""
    if isinstance(path, NoPath) or threads is None or not path.total_ns:
        return path
    ends = ((share, end_of(share)[0]) for share in path.shares)
    unknown_ns = sum(
        share.ns for share, group in ends if group in (UNKNOWN, UNRECORDED) or key_of(share, group) in LAST
    )
    own = _of_threads(threads.of(WORKLOAD))
    own_ns = sum(line.ns for line in own)
    own_unknown_ns = sum(line.ns for line in own if line.key in LAST)
    if unknown_ns <= MOST_UNKNOWN * path.total_ns or own_unknown_ns > MOST_UNKNOWN * own_ns or not own_ns:
        return path
    return NoPath(f"{100 * unknown_ns / path.total_ns:.0f} % of the critical path is not known")


def measure_ledger(path: PathResults | NoPath, threads: ThreadResults | None, wall_s: float) -> Ledger:
    """The ledger of a run. wall_s: of the workload."""
    if isinstance(path, PathResults) and path.total_ns:
        lines = _of_path(path.shares)
        lived_s = path.total_ns / path.roots / 1e9
        if path.names and lived_s < LEAST_LIVED * wall_s:
            wall_s = lived_s
        return Ledger(PATH, "", wall_s, path.roots, path.total_ns, lines)
    why = path.why if isinstance(path, NoPath) else ""
    if threads is None or (isinstance(path, NoPath) and path.is_of_many):
        return Ledger("", why, wall_s, 0, 0, [])
    lines = _of_threads(threads.of(WORKLOAD), round(wall_s * 1e9))
    return Ledger(THREADS, why, wall_s, threads.workload_threads, sum(line.ns for line in lines), lines)


def _sorted(lines: Mapping[str, Line]) -> list[Line]:
    return sorted(lines.values(), key=lambda line: (line.key in LAST, -line.ns, line.key))


def _of_path(shares: Iterable[Share]) -> list[Line]:
    lines: dict[str, Line] = {}
    for share in shares:
        group, _ = end_of(share)
        key = key_of(share, group)
        line = lines.setdefault(key, Line(key, TEXTS.get(key) or text_of(key)))
        line.ns += share.ns
        line.weak_ns += share.weak_ns
        line.ends[group] = line.ends.get(group, 0) + share.ns
        line.shares.append(share)
    return _sorted(lines)


def key_of(share: Share, group: str) -> str:
    """Key of the line that a share of the path belongs to. group: of its end (ends.py)."""
    own = share.own.cause
    if group == UNRECORDED:
        return NOT_RECORDED
    if own in (causes.LOST, causes.OVER, rules.NO_STACK, rules.UNKNOWN):
        return NOT_EXPLAINED
    if own == causes.READY:
        return OTHERS if group == APPARATUS else READY_LINE
    return CPU if own == causes.ON_CPU else own


def key_of_part(part: Part) -> str:
    """Key of the line that a part of the threads' time belongs to."""
    if part.kind.startswith(READY_PART):
        return READY_LINE
    if part.kind in ON_CPU:
        return CPU
    return NOT_EXPLAINED if part.kind in NOT_KNOWN else part.kind


def _of_threads(parts: Iterable[Part], wall_ns: int = 0) -> list[Line]:
    """Sleeps of the threads' own will do not count: there the thread holds nobody up.

    But where all else of all threads together is less than the wall time, for the rest of it nobody did
    anything else: so much of these sleeps counts.
    """
    lines: dict[str, Line] = {}
    voluntary: dict[str, int] = {}
    for part in parts:
        if part.kind in VOLUNTARY:
            voluntary[part.kind] = voluntary.get(part.kind, 0) + part.ns
            continue
        key = key_of_part(part)
        line = lines.setdefault(key, Line(key, TEXTS.get(key) or text_of(key)))
        line.ns += part.ns
        group = {CPU: "own CPU", READY_LINE: READY}.get(key, key)
        line.ends[group] = line.ends.get(group, 0) + part.ns
    # who waits for its children does so because these sleep
    own = {kind: ns for kind, ns in voluntary.items() if kind != CHILD} or voluntary
    rest_ns = min(wall_ns - sum(line.ns for line in lines.values()), sum(own.values()))
    for kind, ns in own.items():
        if rest_ns > 0 and (part_ns := rest_ns * ns // sum(own.values())):
            lines[kind] = Line(kind, text_of(kind), part_ns, ends={kind: part_ns})
    return _sorted(lines)
