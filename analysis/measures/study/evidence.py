# SPDX-License-Identifier: BSD-2-Clause
"""What the runs themselves show beside a difference: the measures in which all runs of two subjects differ.

Measures are those of kind cause and lock (locks, seeks, bytes by class, calls, latencies), of whole runs,
without rates. Of each kind the measure with the largest ratio is shown. That a measure differs too does not
say that it is the cause.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.measures.common.statistics import Mean, mean_ci
from analysis.measures.study.agreement import AGREES, DISAGREES, Agreement, Pair

LARGE = 1.5  # a ratio of means from which a difference gets evidence
LEAST = 1.1  # of a measure shown beside it
SHOWN = 4  # measures of a pair, one a group
TIMES = ("locks", "calls")  # groups of sums of time
GROUPS = ("locks", "seeks", "bytes", "calls", "latencies", "device")
LEAST_SPIN = 0.01  # of all CPU time: a lock that spins for less in both is no evidence
RATES = ("/s", "MB/s")  # follow the length of the runs, which is what differs
OUTSIDE = ("mkfs", "fsck")
OUTSIDE_WHY = "mkfs and fsck are outside of the recorded time"
BELOW = "below 1 %"
DEFINITION = (
    "beside it: measures of whole runs in which every run of the one subject is above every run of the"
    " other, of each kind (locks, seeks, bytes by class, calls, latencies, device) the one with the largest"
    " ratio. They stand beside the difference; that they explain it is not claimed."
)


@dataclass(frozen=True)
class Beside:
    """One measure of both subjects. None: the measure is below 1 % in all runs of the subject."""

    group: str
    measure: str
    unit: str
    first: Mean | None
    second: Mean | None

    @property
    def weight(self) -> float:
        """Larger / smaller mean."""
        if self.first is None or self.second is None:
            return math.inf
        a, b = abs(self.first.value), abs(self.second.value)
        return max(a, b) / min(a, b) if min(a, b) > 0 else math.inf


@dataclass(frozen=True)
class Evidence:
    """Rows of one table in which two subjects differ, and what their runs show beside it."""

    pairs: tuple[Pair, ...]  # of the same two configurations, the furthest apart first
    beside: tuple[Beside, ...]
    why: str = ""  # why nothing is beside it


def group_of(measure: str, unit: str) -> str:
    """The kind of a cause."""
    if measure.startswith(("asleep on", "spinning on", "CPU time spinning")):
        return "locks"
    if "seek" in measure or measure.startswith("moves back"):
        return "seeks"
    if measure.startswith(("disk read", "disk write", "disk discard", "disk flush", "metadata of")):
        return "bytes"
    if measure.startswith("in ") and measure.endswith(" calls"):
        return "calls"
    return "latencies" if unit == "ns" else "device"


def measure_evidence(agreement: Agreement, figures: pd.DataFrame, machine: str) -> list[Evidence]:
    """Evidence for every pair that disagrees or is LARGE apart: disagreements first, then the largest."""
    large = [
        pair
        for pair in agreement.pairs
        if DISAGREES in (pair.order, pair.ratio)
        or (pair.difference is not None and pair.difference.rule is not False and pair.weight >= LARGE)
    ]
    by_runs: dict[tuple[str, str, str, bool], list[Pair]] = {}
    for pair in large:
        first, second = (cell.measured.traced if cell.measured else "" for cell in pair.cells)
        key = pair.table, first, second, pair.row.measure in OUTSIDE
        by_runs.setdefault(key, []).append(pair)
    mask = (figures["machine"] == machine) & figures["kind"].isin(["cause", "lock"])
    causes = figures[mask & pd.notna(figures["value"])]
    by_configuration = {str(name): frame for name, frame in causes.groupby("configuration", sort=False)}
    found = []
    for (_, first, second, is_outside), pairs in by_runs.items():
        pairs.sort(key=importance)
        a, b = by_configuration.get(first), by_configuration.get(second)
        if is_outside or a is None or b is None:
            found.append(Evidence(tuple(pairs), (), OUTSIDE_WHY if is_outside else "no trace of these runs"))
            continue
        shown_already = {pair.row.measure for pair in pairs}
        beside = _beside(a[~a["measure"].isin(shown_already)], b[~b["measure"].isin(shown_already)])
        why = "" if beside else "no recorded measure tells all runs apart"
        found.append(Evidence(tuple(pairs), tuple(beside), why))
    return sorted(found, key=lambda one: importance(one.pairs[0]))


def apart_by_chance(pairs: Sequence[Pair]) -> float | None:
    """Share of measures in which all runs of two alike subjects are apart by chance; of the fewest runs.

    Of all orders of n + m alike runs, 2 of C(n + m, n) have the one subject's runs together at an end.
    """
    runs = [tuple(len(cell.measured.values) for cell in pair.cells if cell.measured) for pair in pairs]
    return max((min(1.0, 2 / math.comb(sum(of), of[0])) for of in runs if len(of) == 2), default=None)


def importance(pair: Pair) -> tuple[int, float]:
    """Sorts pairs: orders that disagree, ratios that disagree, then the others; the furthest apart first."""
    rank = 0 if pair.order == DISAGREES else 1 if pair.ratio == DISAGREES else 2
    rank += pair.order not in (DISAGREES, AGREES) and rank == 2
    return rank, -(pair.factor or pair.weight)


def _beside(a: pd.DataFrame, b: pd.DataFrame) -> list[Beside]:
    ours, theirs = _values(a), _values(b)
    best: dict[str, Beside] = {}
    for key in dict.fromkeys([*ours, *theirs]):
        one = _compared(key, ours.get(key, []), theirs.get(key, []), (_runs(a), _runs(b)))
        least = LARGE if min(_runs(a), _runs(b)) == 1 else LEAST  # single runs: chance tells them apart
        if one is None or one.weight < least:
            continue
        held = best.get(one.group)
        if held is None or _strength(one) > _strength(held):
            best[one.group] = one
    return [best[group] for group in GROUPS if group in best][:SHOWN]


def _strength(one: Beside) -> tuple[bool, bool, float, str]:
    """Amounts (times, counts, bytes) go first, then measures that both subjects have, then large ratios."""
    is_amount = (
        one.measure == "seeks" or one.measure.endswith((": requests", ": bytes")) or one.group in TIMES
    )
    is_finite = math.isfinite(one.weight)
    return is_amount, is_finite, one.weight if is_finite else 0.0, one.measure


def _runs(frame: pd.DataFrame) -> int:
    return int(frame["task"].nunique())


def _values(frame: pd.DataFrame) -> dict[tuple[str, str], list[float]]:
    return {
        (str(measure), str(unit)): [float(value) for value in rows["value"]]
        for (measure, unit), rows in frame.groupby(["measure", "unit"], sort=False)
    }


def _compared(
    key: tuple[str, str], ours: Sequence[float], theirs: Sequence[float], runs: tuple[int, int]
) -> Beside | None:
    """The measure, if every run of one subject is above every run of the other; else None."""
    measure, unit = key
    if unit in RATES or measure.startswith("wait per operation"):
        return None
    if measure.startswith("spinning on") and max(*ours, *theirs, 0.0, 0.0) < LEAST_SPIN:
        return None
    group = group_of(measure, unit)
    if ours and theirs:
        if len(ours) < runs[0] or len(theirs) < runs[1]:
            return None  # below 1 % in some runs: which is above is not known of all
        if max(ours) < min(theirs) or max(theirs) < min(ours):
            return Beside(group, measure, unit, mean_ci(ours), mean_ci(theirs))
        return None
    # a cause below 1 % of a run is not among its figures
    if len(ours) == runs[0]:
        return Beside(group, measure, unit, mean_ci(ours), None)
    return Beside(group, measure, unit, None, mean_ci(theirs)) if len(theirs) == runs[1] else None
