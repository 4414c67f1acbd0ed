# SPDX-License-Identifier: BSD-2-Clause
"""Throughput that falls or rises over a phase: its mean then depends on how long the phase is.

The trend is tested on square roots of the rates, which tames short bursts; what it is worth is counted in the
rates themselves, of the first and the last fifth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis import units
from analysis.findings.finding import Certainty, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.app import phases
from analysis.measures.app.throughput import middle_ns, moves_bytes, on_target
from analysis.measures.common.intervals import union
from analysis.measures.common.timeline import F64, make_timeline, nice_width_ns
from analysis.measures.common.window import QUANTUM_NS
from analysis.measures.dips.levels import account_of_change
from analysis.measures.dips.progress import causes_text
from analysis.measures.statistics.trend import Trend, mean_error, trend
from analysis.tables.store import I64

KEY = "steady"
MOST_BINS = 2_000
MOST_P = 0.005  # divided by the number of phases that are long enough
LEAST_CHANGE = 0.2  # of the higher rate
FIFTHS = 5
Z_975 = 1.96


@dataclass(frozen=True)
class _Series:
    """Rates of the bins of one phase, and where they lie."""

    name: str  # "": the whole run
    rates: F64
    lengths_s: F64
    start_ns: int
    end_ns: int


def find(case: Case) -> Sequence[Finding]:
    """One finding for each phase."""
    call = case.tables.call
    if call is None or not on_target(call).any():
        return []
    moved = moves_bytes(call, "read") | moves_bytes(call, "write")
    has_bytes = int(call.bytes[moved].sum()) > 0
    rows = np.flatnonzero(moved if has_bytes else on_target(call))
    values = call.bytes[rows] if has_bytes else call.count[rows]
    series = _by_phase(case, middle_ns(call)[rows], values)
    roots = [(one, np.sqrt(np.maximum(one.rates, 0))) for one in series]
    tested = [(one, found) for one, root in roots if (found := trend(root)) and found.p is not None]
    findings = [_finding(case, one, result, has_bytes, len(tested)) for one, result in tested]
    return [finding for finding in findings if finding is not None]


def _by_phase(case: Case, t_ns: npt.NDArray[np.int64], values: I64) -> list[_Series]:
    window, marked = case.results.window, case.tables.phases
    start, end = window.work_start_ns, window.work_end_ns
    width = nice_width_ns(end - start, MOST_BINS, QUANTUM_NS)
    timeline = make_timeline(start, end, start, width, QUANTUM_NS)
    rates = timeline.rates(t_ns, values)
    spans = {"": [(start, end)]}
    if marked is not None and marked.name:
        spans = {
            name: union([(int(marked.start_ns[i]), int(marked.end_ns[i])) for i in members])
            for name, members in phases.group(marked).items()
        }
    edges, found = timeline.edges_ns, []
    for name, intervals in spans.items():
        inside = np.zeros(timeline.bins, dtype=np.bool_)
        for begin, until in intervals:
            inside |= (edges[:-1] >= begin) & (edges[1:] <= until)
        at = np.flatnonzero(inside)
        if at.size:
            limits = int(edges[at[0]]), int(edges[at[-1] + 1])
            found.append(_Series(name, rates[at], timeline.lengths_s[at], *limits))
    return found


def _finding(case: Case, one: _Series, result: Trend, has_bytes: bool, tests: int) -> Finding | None:
    fifth = one.rates.size // FIFTHS
    first, last = float(one.rates[:fifth].mean()), float(one.rates[-fifth:].mean())
    higher = max(first, last)
    assert result.p is not None
    if result.p > MOST_P / tests or not higher or abs(first - last) < LEAST_CHANGE * higher:
        return None
    if (result.last > result.first) != (last > first):
        return None
    falls = last < first
    done, elapsed_s = float((one.rates * one.lengths_s).sum()), float(one.lengths_s.sum())
    error = mean_error(one.rates[:fifth] if falls else one.rates[-fifth:])

    def lost(rate: float) -> float:
        return max(elapsed_s - done / rate, 0.0) if rate > 0 else 0.0

    value = lost(higher)
    low, high = (lost(higher + z * error) if error is not None else 0.0 for z in (-Z_975, Z_975))
    if not case.counts(value):
        return None
    rates = [
        f"{units.bytes_(rate)}/s" if has_bytes else f"{units.rate(rate)} calls/s" for rate in (first, last)
    ]
    place = f" in the phase {one.name}" if one.name else ""
    unit, scale = ("MB/s", 1e6) if has_bytes else ("calls/s", 1.0)
    return Finding(
        kind=KEY,
        what=f"Throughput {'fell' if falls else 'rose'}{place} from {rates[0]} in the first fifth to"
        f" {rates[1]} in the last: {case.of_wall(value)} more than at the"
        f" {'first' if falls else 'last'} rate.",
        because=[
            *_causes(case, one.name, falls),
            f"{one.rates.size} time bins; of 1,000 series without a trend"
            f" {max(round(result.p * 1000) - 1, 0)} are as steep.",
        ],
        where=Where(one.start_ns, one.end_ns, phases=(one.name,) if one.name else ()),
        cost=case.cost(value, low, high),
        evidence=[
            Evidence(
                "call",
                {"target": "target", "phase": one.name},
                "rate in the last fifth, outside: in the first",
                unit,
                last / scale,
                first / scale,
            )
        ],
        certainty=Certainty.LIKELY if low > 0 and case.counts(low) else Certainty.POSSIBLE,
        doubt="the work itself may change over its course",
        no_remedy="what takes its cause away is with the finding on the cause",
        test=f"twice as long, does it go on {'falling' if falls else 'rising'}? {case.command()}",
    )


def _causes(case: Case, phase: str, falls: bool) -> list[str]:
    """What the rest of the phase took longer for than as much work in its best fifth."""
    found = account_of_change(case.tables, case.results, phase, falls)
    if found is None:
        return []
    text = causes_text([found[0]], found[1])
    return [text.replace("outside", f"in the {'first' if falls else 'last'} fifth", 1)]


RULES = (Rule(KEY, 50, "throughput that decays", ("calls",), find),)
