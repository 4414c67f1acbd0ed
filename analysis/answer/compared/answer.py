# SPDX-License-Identifier: BSD-2-Clause
"""The answer of a comparison: the facts of its first screen, in the order in which it states them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis import units
from analysis.answer.compared.found import KindApart, KindsFound, kinds_apart
from analysis.answer.compared.steps import steps
from analysis.answer.lost import ALL_THERE, lost
from analysis.answer.next_steps import Step
from analysis.measures.common.statistics import mean_ci
from analysis.measures.compare.compared_run import Compared
from analysis.measures.compare.differences import Side
from analysis.measures.compare.time_apart import TimeApart, measure_time_apart
from analysis.measures.compare.verdicts import Verdicts
from analysis.measures.compare.work import STATED, done_words
from analysis.measures.ledger import PATH
from analysis.sections.compare.facts import TAG, same_and_different, shared_name, tags
from analysis.sections.compare.table import union
from analysis.sections.compare.verdict_tables import sentence

SHORT = 24  # letters of a setting's value
MOST_LETTERS = 3  # runs of a side that are named by their letters
# settings that follow from others, or name the run
NOT_NAMED = ("name", "argv", "build id", "kernel version", "state", "workload ended", "seed", "command")
SINGLE = "single runs: no interval, and a pair may differ by chance"
INTERVALS = "+-: 95 % intervals; may be noise: no more than chance makes in so many lines"


@dataclass(frozen=True)
class NamedSide:
    """A side of the comparison. letters: A, A+C."""

    letters: str
    tag: str  # "" if nothing short tells it from others
    n: int
    runs: str  # names of its runs
    wall: str  # of the workload, seconds

    @property
    def name(self) -> str:
        """ "xfs (B)"."""
        return f"{self.tag} ({self.letters})" if self.tag else self.letters


@dataclass(frozen=True)
class CompareAnswer:
    """Sentences have no full stop at their end; texts of the runs are not yet cleaned."""

    title: str
    warnings: list[str]  # what must be known before any number
    sides: list[NamedSide]
    work: str
    differing: list[str]  # settings
    heading: str  # of the table
    time: TimeApart
    refused: list[str]  # sides that do not compare, and why
    notes: list[str]  # on the table
    kinds: list[KindApart]  # of findings
    kind_sides: Sequence[int]  # numbers of the sides that they are of
    lost: list[str]
    verdict: str
    steps: list[Step]

    def known(self, place: int) -> NamedSide:
        """The name of a side whose time is known."""
        return self.sides[self.time.known[place]]


def make_answer(
    runs: Sequence[Compared], found: Sequence[KindsFound], banners: Sequence[str], verdicts: Verdicts
) -> CompareAnswer:
    """The answer of a comparison of runs. banners: of its report."""
    time = measure_time_apart(runs)
    named = _named(runs, time.sides)
    caveats = [
        f"{one.letter}: {what}" for one, each in zip(runs, found, strict=True) for what in each.caveats
    ]
    return CompareAnswer(
        title=_title(runs, named),
        warnings=[*banners, *caveats],
        sides=named,
        work=_work(runs, time),
        differing=_differing(runs),
        heading=_heading(time),
        time=time,
        refused=[f"{named[number].name} is not compared in seconds: {why}" for number, why in time.left_out],
        notes=_notes(time),
        kinds=_kinds(found, time),
        kind_sides=_kind_sides(time),
        lost=_lost(runs, found),
        verdict=sentence(verdicts),
        steps=steps(runs, time),
    )


def _named(runs: Sequence[Compared], all_sides: Sequence[Side]) -> list[NamedSide]:
    of_runs = tags(runs)
    if not any(of_runs):  # nothing else tells them apart
        of_runs = [one.run.name for one in runs]
        if len(set(of_runs)) < len(runs) or max(map(len, of_runs)) > TAG:
            of_runs = [""] * len(runs)
    if len({of_runs[side[0]] for side in all_sides}) < len(all_sides):
        of_runs = [""] * len(runs)
    named = []
    for side in all_sides:
        few = [runs[i].letter for i in side[:MOST_LETTERS]]
        letters = "+".join(few) + ("+..." if len(side) > MOST_LETTERS else "")
        wall = mean_ci([runs[i].results.window.work_s for i in side])
        wall_s = units.mean(wall).removesuffix(" (single)")
        names = ", ".join(runs[i].run.name for i in side)
        named.append(NamedSide(letters, of_runs[side[0]], len(side), names, f"{wall_s} s"))
    return named


def _title(runs: Sequence[Compared], named: Sequence[NamedSide]) -> str:
    names = [one.tag or one.letters for one in named]
    shared = shared_name(runs)
    compared = " against ".join(names) if len(names) == 2 else f"{', '.join(names)} compared"
    if len(names) == 1:
        compared = f"{named[0].n} repetitions"
    return f"Seekmeter: {compared}" + (f": {shared}" if shared else "")


def _work(runs: Sequence[Compared], time: TimeApart) -> str:
    """What was done, and whether that is the same."""
    done = done_words(time.works[0])
    judged = [time.judged[i] for i in time.amounts] if time.is_compared else time.judged[:1]
    if stated := next((one.words for one in judged if one.words and not one.unit), ""):
        return f"the same, {stated}"
    beside = ""
    if len({work.syncs for work in time.works}) > 1:
        beside += f"; syncs: {' / '.join(f'{work.syncs:,}' for work in time.works)}"
    stated_by_name = zip(STATED, *(work.stated for work in time.works), strict=True)
    if names := [name for name, *each in stated_by_name if len(set(each)) > 1]:
        beside += f"; other {' and '.join(names)}"
    if time.unit:
        amounts = next((time.judged[i].words for i in time.amounts if time.judged[i].words), "")
        return f"the same mix of another amount ({amounts}): seconds are by {time.unit}{beside}"
    if time.is_compared or len(time.sides) == 1:
        return f"the same by count: {done}{beside}" if done else f"the same{beside}"
    return "; ".join(
        f"{one.letter}: {done_words(work) or 'not known'}" for one, work in zip(runs, time.works, strict=True)
    )


def _differing(runs: Sequence[Compared]) -> list[str]:
    """Settings that differ: with their values, if these are short."""
    _, different = same_and_different(runs)
    found = []
    for name, values in different:
        if name in NOT_NAMED:
            continue
        distinct = union([values])
        is_short = len(distinct) <= 4 and all(len(value) <= SHORT for value in distinct)
        found.append(f"{name} {' / '.join(distinct)}" if is_short else name)
    # with their values first
    return sorted(found, key=lambda one: " / " not in one)


def _heading(time: TimeApart) -> str:
    what = "WHERE THE DIFFERENCE COMES FROM" if time.is_compared else "WHERE THE TIME WENT"
    of_threads = " (mean of threads)" if time.threads > 1 else ""
    basis = "the critical path" if time.basis == PATH else "the threads' time"
    by = f" by {time.unit}" if time.unit else ""
    return f"{what}, seconds{by}: {basis}{of_threads}"


def _notes(time: TimeApart) -> list[str]:
    notes = []
    if time.is_compared:
        has_intervals = any(one.interval is not None for one in time.whole.values())
        is_single = any(one.interval is None for one in time.whole.values())
        notes += [SINGLE] * is_single + [INTERVALS] * has_intervals
    if time.known and time.why_threads:
        notes.append(f"by the threads' time, not the critical path: {time.why_threads}")
    return notes


def _kind_sides(time: TimeApart) -> Sequence[int]:
    return time.known if time.is_compared else range(len(time.sides))


def _kinds(found: Sequence[KindsFound], time: TimeApart) -> list[KindApart]:
    chosen = [time.sides[number] for number in _kind_sides(time)]
    amounts = [time.amounts.get(i, 1.0) for i in range(len(found))]
    longest_s = max((time.total.mean_s(k) for k in range(len(time.known))), default=0.0)
    return kinds_apart(found, chosen, amounts, longest_s)


def _lost(runs: Sequence[Compared], found: Sequence[KindsFound]) -> list[str]:
    sentences = [
        f"{one.letter}: {text}"
        for one, each in zip(runs, found, strict=True)
        for text in lost(one.run, each.not_asked)
    ]
    return sentences or [ALL_THERE]
