# SPDX-License-Identifier: BSD-2-Clause
"""The difference of the workloads' times by cause, from the ledgers: the lines sum to the difference.

All runs go by the same basis: the critical path if each run's ledger has it, else the time of the threads.
With repetitions, a line's difference is that of the means, with Welch's 95 % interval; which lines differ
by more than chance is told by p after Holm's correction over all lines. Of single runs nothing is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.causes.roles import WORKLOAD
from analysis.measures.common.statistics import Interval
from analysis.measures.compare.compared_run import EMULATED, INSIDE_AND_OUTSIDE, Compared, is_virtual
from analysis.measures.compare.differences import Side, sides
from analysis.measures.compare.work import Judged, Work, judge_work, work_of
from analysis.measures.critical_path.results import NoPath
from analysis.measures.ledger import CPU, LAST, PATH, THREADS, Ledger, Line, measure_ledger
from analysis.measures.statistics.differences import compare
from analysis.measures.statistics.holm import holm
from analysis.measures.threads.parts import ON_CPU

SURE = 0.05  # of p after Holm's correction
NO_TIME = "where its time went was not recorded (COLLECT=sched, threads)"
SAME, DIFFERS, NOISE, OPEN = "same", "differs", "within noise", "may be noise"


@dataclass(frozen=True)
class Apart:
    """One value of one side against the first side: seconds, or seconds by unit of work."""

    first_s: float  # means
    other_s: float
    interval: Interval | None  # of the difference, 95 %; None: single runs
    p: float | None  # of equal means, after Holm's correction over all lines; None: not known

    @property
    def value_s(self) -> float:
        """The other minus the first."""
        return self.other_s - self.first_s

    @property
    def verdict(self) -> str:
        """Whether it differs by more than chance; "": single runs, nothing is told."""
        if self.interval is None:
            return ""
        if self.interval.low == self.interval.high:  # neither side varies
            return DIFFERS if self.value_s else SAME
        if self.interval.low <= 0 <= self.interval.high:
            return NOISE
        return DIFFERS if self.p is not None and self.p < SURE else OPEN


@dataclass(frozen=True)
class Cause:
    """One line of the ledgers. values_s: by known side and run. parts_s: by known side and name, means."""

    key: str
    text: str
    values_s: Sequence[Sequence[float]]
    parts_s: Sequence[Mapping[str, float]]

    def mean_s(self, side: int) -> float:
        """Of a side's runs."""
        return math.fsum(self.values_s[side]) / len(self.values_s[side])


@dataclass(frozen=True)
class TimeApart:
    """Causes of the difference, those that differ most first, then what is not known.

    sides: all, runs by index. known: numbers of those whose times are in the causes, the first side first.
    left_out: numbers of sides that do not compare, and why. Where no two compare, known are all that have a
    time, each by itself.
    """

    basis: str  # PATH, THREADS; "": no run's time is known
    why_threads: str  # why not the path; "": it is
    threads: int  # that the basis is the mean of, at most
    sides: Sequence[Side]
    known: Sequence[int]
    is_compared: bool  # there are differences
    total: Cause
    causes: Sequence[Cause]
    left_out: Sequence[tuple[int, str]]
    unit: str  # of work, that times are divided by; "": times as they are
    works: Sequence[Work]  # of all runs
    judged: Sequence[Judged]  # of all runs, against the first
    amounts: Mapping[int, float]  # of work by run, in units; of runs whose times are known
    apart: Mapping[tuple[str, int], Apart]  # by cause and place in known, from 1 on
    whole: Mapping[int, Apart]  # of the whole time, by place in known


@dataclass(frozen=True)
class RunTimes:
    """Where one run's time went, by each basis that it has, and its work.

    lines: seconds by key, which sum to all. parts: of a line by key, what it was in the end.
    why_not: the run does not compare with the first.
    """

    name: str
    lines: Mapping[str, Mapping[str, float]]
    parts: Mapping[str, Mapping[str, Mapping[str, float]]]
    texts: Mapping[str, str]  # of all keys
    threads: Mapping[str, int]  # that a basis is the mean of
    why_no_path: str
    work: Work
    why_not: str = ""


def measure_time_apart(runs: Sequence[Compared]) -> TimeApart:
    """The causes of the differences of all sides' times from the first side's."""
    return time_apart(sides(runs), [times_of(one, runs[0]) for one in runs])


def times_of(compared: Compared, first: Compared) -> RunTimes:
    """Where a run's time went, by the path and by its threads."""
    results = compared.results
    by_path = measure_ledger(results.path, results.threads, results.window.work_s)
    by_threads = measure_ledger(NoPath(""), results.threads, results.window.work_s)
    ledgers = {ledger.basis: ledger for ledger in (by_threads, by_path) if _has_time(ledger)}
    return RunTimes(
        name=compared.letter,
        lines={
            basis: {line.key: ledger.seconds(line.ns) for line in ledger.lines}
            for basis, ledger in ledgers.items()
        },
        parts={
            basis: {line.key: _parts(compared, ledger, line) for line in ledger.lines}
            for basis, ledger in ledgers.items()
        },
        texts={line.key: line.text for ledger in ledgers.values() for line in ledger.lines},
        threads={basis: ledger.threads for basis, ledger in ledgers.items()},
        why_no_path=by_path.why_not,
        work=work_of(compared),
        why_not=_why_not(compared, first),
    )


def _has_time(ledger: Ledger) -> bool:
    return bool(ledger.lines) and ledger.total_ns > 0 and ledger.wall_s > 0


def _why_not(compared: Compared, first: Compared) -> str:
    """Why no time of the run compares with the first run's."""
    if is_virtual(first) != is_virtual(compared):
        return INSIDE_AND_OUTSIDE
    return EMULATED if first.emulated != compared.emulated else ""


def _parts(compared: Compared, ledger: Ledger, line: Line) -> dict[str, float]:
    """Of time on a CPU its kinds, by the threads' samples; of other lines the path's ends."""
    if line.key != CPU:
        return {group: ledger.seconds(ns) for group, ns in line.ends.items()}
    threads = compared.results.threads
    kinds = {part.kind: part.ns for part in (threads.of(WORKLOAD) if threads else ()) if part.kind in ON_CPU}
    total = sum(kinds.values())
    return {kind: ledger.seconds(line.ns) * ns / total for kind, ns in kinds.items()} if total else {}


def time_apart(all_sides: Sequence[Side], times: Sequence[RunTimes]) -> TimeApart:
    """The same of runs that were measured before."""
    works = [one.work for one in times]
    judged = judge_work(works[0], works[1:])
    basis, why_threads = _basis(times)
    reasons = [
        one.why_not or run.why_not or ("" if basis in run.lines else NO_TIME)
        for one, run in zip(judged, times, strict=True)
    ]
    left_out = [
        (number, why)
        for number, side in enumerate(all_sides)
        if (why := next((reasons[i] for i in side if reasons[i]), ""))
    ]
    refused = {number for number, _ in left_out}
    known = [number for number in range(len(all_sides)) if number not in refused]
    is_compared = len(known) > 1 and known[0] == 0
    if not is_compared:
        known = [n for n, side in enumerate(all_sides) if all(basis in times[i].lines for i in side)]
    members = [all_sides[number] for number in known]
    amounts = {i: judged[i].amounts[0] if is_compared else 1.0 for side in members for i in side}
    causes = _causes(times, basis, members, amounts)
    walls = [[math.fsum(times[i].lines[basis].values()) / amounts[i] for i in side] for side in members]
    others = range(1, len(known)) if is_compared else range(0)
    return TimeApart(
        basis=basis if known else "",
        why_threads=why_threads,
        threads=max((times[i].threads.get(basis, 0) for i in amounts), default=0),
        sides=all_sides,
        known=known,
        is_compared=is_compared,
        total=Cause("", "all", walls, []),
        causes=causes,
        left_out=left_out,
        unit=next((judged[i].unit for i in amounts if judged[i].unit), "") if is_compared else "",
        works=works,
        judged=judged,
        amounts=amounts,
        apart=_judged(causes, others),
        whole={k: _of_values(walls[0], walls[k]) for k in others},
    )


def _basis(times: Sequence[RunTimes]) -> tuple[str, str]:
    """The basis of all runs, and why that is not the path."""
    without = [one for one in times if PATH not in one.lines and THREADS in one.lines]
    if not without:
        return PATH, ""
    names = ", ".join(one.name for one in without)
    why = next((one.why_no_path for one in without if one.why_no_path), "")
    return THREADS, f"{names} has no path{f': {why}' if why else ''}"


def _causes(
    times: Sequence[RunTimes], basis: str, members: Sequence[Side], amounts: Mapping[int, float]
) -> list[Cause]:
    """All lines of these sides, those that differ most first, then what is not known."""
    keys = dict.fromkeys(key for side in members for i in side for key in times[i].lines[basis])
    texts = {key: text for one in times for key, text in one.texts.items()}
    causes = [
        Cause(
            key,
            texts.get(key, key),
            [[times[i].lines[basis].get(key, 0.0) / amounts[i] for i in side] for side in members],
            [_mean_parts(times, basis, key, amounts, side) for side in members],
        )
        for key in keys
    ]
    return sorted(causes, key=lambda cause: (cause.key in LAST, -_most_apart(cause), cause.key))


def _mean_parts(
    times: Sequence[RunTimes], basis: str, key: str, amounts: Mapping[int, float], side: Side
) -> dict[str, float]:
    sums: dict[str, float] = {}
    for i in side:
        for name, seconds in times[i].parts.get(basis, {}).get(key, {}).items():
            sums[name] = sums.get(name, 0.0) + seconds / amounts[i] / len(side)
    return sums


def _most_apart(cause: Cause) -> float:
    """The largest difference of a side from the first; of one side alone its time."""
    if len(cause.values_s) == 1:
        return cause.mean_s(0)
    return max(abs(cause.mean_s(k) - cause.mean_s(0)) for k in range(1, len(cause.values_s)))


def _of_values(first: Sequence[float], other: Sequence[float]) -> Apart:
    known = compare(first, other)
    assert known is not None  # a side has at least one run
    # exact sums: the lines' differences are those of the whole
    mean_first, mean_other = math.fsum(first) / len(first), math.fsum(other) / len(other)
    return Apart(mean_first, mean_other, known.interval, known.welch_p)


def _judged(causes: Sequence[Cause], others: Sequence[int]) -> dict[tuple[str, int], Apart]:
    """Each line of each side against the first side, with p corrected over all of them."""
    single = {
        (cause.key, k): _of_values(cause.values_s[0], cause.values_s[k]) for cause in causes for k in others
    }
    corrected = holm([one.p for one in single.values()])
    return {
        key: Apart(one.first_s, one.other_s, one.interval, p)
        for (key, one), p in zip(single.items(), corrected, strict=True)
    }
