# SPDX-License-Identifier: BSD-2-Clause
"""The workload stood still: no call of it on the file system returned; by what it waited for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis import units
from analysis.findings.finding import Certainty, Cost, Evidence, Finding, Where
from analysis.findings.rule import Case, Rule
from analysis.measures.dips.progress import progress_text, table_of, tracks_of
from analysis.measures.dips.results import ExplainedStop, StopsOfTrack, measure_stops
from analysis.measures.dips.tracks import BYTES
from analysis.measures.ledger import CPU
from analysis.measures.threads.parts import VOLUNTARY
from analysis.tables import thread_time

KEY = "stop"
IN_A_CALL = 0.8  # of a stop: a call that took longer was under way
MAIN_LEAST = 0.5  # share of the stops that the cause named has at least
UNKNOWN_MOST = 0.2
LEAST_END_S = 0.005  # of an end that is named
Placed = tuple[StopsOfTrack, ExplainedStop]


def find(case: Case) -> Sequence[Finding]:
    """One finding for each cause."""
    tracks = tracks_of(case.tables, case.results)
    if not tracks or case.tables.call is None:
        return []
    times = case.tables.get(thread_time.TABLE)
    groups: dict[str, list[Placed]] = {}
    for of_track in measure_stops(tracks, case.tables.call, case.results.path, times):
        for stop in of_track.stops:
            # where nobody was seen at work, all slept of their own will
            if _is_the_kernels(stop) and (stop.account is not None or of_track.spent is None):
                groups.setdefault(_main(stop), []).append((of_track, stop))
    return [
        _finding(case, key, stops, len(tracks) > 1)
        for key, stops in groups.items()
        if case.counts(sum(stop.stop.seconds for _, stop in stops))
    ]


def _main(stop: ExplainedStop) -> str:
    return stop.account.lines[0].key if stop.account is not None and stop.account.lines else ""


def _is_in_call(stop: ExplainedStop) -> bool:
    return stop.call_ns / 1e9 >= IN_A_CALL * stop.stop.seconds


def _is_the_kernels(stop: ExplainedStop) -> bool:
    """Not of the workload's own will: it did not pause, and did not compute between two calls."""
    key = _main(stop)
    return key not in VOLUNTARY and (key not in (CPU, "") or _is_in_call(stop))


def _range(seconds: Iterable[float], digits: int = 1) -> str:
    ordered = sorted(seconds)
    low, high = (f"{value:.{digits}f}" for value in (ordered[0], ordered[-1]))
    return low if low == high else f"{low} to {high}"


def _finding(case: Case, key: str, placed: list[Placed], has_phases: bool) -> Finding:
    stops = [stop for _, stop in placed]
    total_s = sum(stop.stop.seconds for stop in stops)
    main_s = sum(stop.account.lines[0].excess_s for stop in stops if stop.account is not None)
    of_track = max((of_track for of_track, _ in placed), key=lambda one: _stopped_s(one, placed))
    track, spent = of_track.track, of_track.spent
    text = spent.text(key) if spent is not None and key else ""
    phases = tuple(dict.fromkeys(one.track.phase for one, _ in placed if one.track.phase))
    start, end = min(stop.stop.start_ns for stop in stops), max(stop.stop.end_ns for stop in stops)
    number = "1 stop" if len(stops) == 1 else f"{len(stops)} stops"
    where = f" in {phases[0]}" if has_phases and len(phases) == 1 else ""
    what = (
        f"{number} of {_range(stop.stop.seconds for stop in stops)} s{where}: no call returned for"
        f" {case.of_wall(total_s)}"
    )
    what += f"; {units.seconds(main_s)} s of it: {text}." if text else "."
    is_bytes = track.unit == BYTES
    evidence = [
        Evidence(
            "call",
            {"phase": track.phase, "from_ns": start, "until_ns": end},
            "bytes moved" if is_bytes else "calls returned",
            "MB/s" if is_bytes else "1/s",
            0.0,
            of_track.rate / (1e6 if is_bytes else 1),
        )
    ]
    if spent is not None and key:
        evidence.append(
            Evidence(
                table_of(spent),
                {"cause": key, "from_ns": start, "until_ns": end},
                f"share of the time: {text}",
                "%",
                100 * main_s / total_s,
                100 * of_track.outside.get(key, 0.0),
            )
        )
    certainty, doubt = _certainty(stops, main_s, total_s, text)
    beside_s = sum(stop.beside_s for stop in stops)
    return Finding(
        kind=KEY,
        what=what,
        because=[one for one in (_ended(stops), _calls(stops), progress_text(of_track.rate, track)) if one],
        where=Where(start, end, phases),
        cost=Cost(total_s, total_s, max(min(total_s + beside_s, case.ledger.wall_s), total_s)),
        evidence=evidence,
        certainty=certainty,
        doubt=doubt,
        no_remedy="what takes its cause away is with the finding on the cause",
        test=f"does it stop at the same progress again? {case.command()}",
        lines=frozenset({key} if key else ()),
    )


def _stopped_s(of_track: StopsOfTrack, placed: list[Placed]) -> float:
    return sum(stop.stop.seconds for one, stop in placed if one is of_track)


def _ended(stops: list[ExplainedStop]) -> str:
    """What the time with the cause ended in."""
    ends: dict[str, float] = {}
    for stop in stops:
        threads = stop.account.threads_in if stop.account is not None else 1.0
        for end, ns in stop.ends:
            ends[end] = ends.get(end, 0.0) + ns / 1e9 / threads
    largest = sorted(ends.items(), key=lambda one: (-one[1], one[0]))[:3]
    largest = [(end, seconds) for end, seconds in largest if seconds >= LEAST_END_S]
    if not largest or largest[0][0] == _main(stops[0]):
        return ""
    return "In the end: " + "; ".join(f"{end}, {units.seconds(s)} s" for end, s in largest) + "."


def _calls(stops: list[ExplainedStop]) -> str:
    """The calls that were under way."""
    calls: dict[str, int] = {}
    inside = [stop for stop in stops if _is_in_call(stop)]
    for stop in inside:
        calls[stop.call] = calls.get(stop.call, 0) + 1
    if not inside:
        return ""
    names = ", ".join(f"{call}()" for call, _ in sorted(calls.items(), key=lambda one: (-one[1], one[0])))
    longest = max(stop.call_ns for stop in inside)
    return f"{len(inside)} of {len(stops)} were in one call: {names}, the longest {units.ns(longest)}."


def _certainty(stops: list[ExplainedStop], main_s: float, total_s: float, text: str) -> tuple[Certainty, str]:
    if not text:
        return Certainty.LIKELY, "neither switches nor threads were recorded, so the cause is not known"
    unknown_s = sum(stop.account.unknown_s for stop in stops if stop.account is not None)
    if unknown_s > UNKNOWN_MOST * total_s:
        return Certainty.LIKELY, f"{units.seconds(unknown_s)} s of it are not explained"
    if main_s < MAIN_LEAST * total_s:
        return Certainty.LIKELY, f"no cause has half of it; {text} has most, {units.seconds(main_s)} s"
    return Certainty.SURE, ""


RULES = (
    Rule(
        key=KEY,
        order=90,
        sought="a stop of all calls",
        collectors=("calls",),
        find=find,
        is_bound=True,  # another view of time that other findings explain
    ),
)
