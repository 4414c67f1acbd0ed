# SPDX-License-Identifier: BSD-2-Clause
"""Stops and dips of a run's throughput, each with where its time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.dips.accounting import Account, account_of_dip, account_of_stop, choose_outside
from analysis.measures.dips.finder import BINS_LEAST, Search, search
from analysis.measures.dips.moves import Move, Series, moves, series_of_disk
from analysis.measures.dips.spent import Spent, spent_on
from analysis.measures.dips.stops import Stop, find_stops
from analysis.measures.dips.tracks import Track
from analysis.tables.block import Block
from analysis.tables.call import Call
from analysis.tables.counter import Counter
from analysis.tables.store import I64
from analysis.tables.thread_time import ThreadTime

CALLS_LEAST = 30  # calls in the median bin
EMPTY_MOST = 0.05  # share of bins without progress
BINS_MOST = 2000
TRACKS_MOST = 5  # the longest ones are searched


@dataclass(frozen=True)
class ExplainedStop:
    """One stop. call: the longest call that returned behind it, and its time: it was stopped in that."""

    stop: Stop
    account: Account | None  # None: neither path nor threads were recorded
    ends: list[tuple[str, int]]  # what the time with the first cause ended in, ns, most first
    beside_s: float  # wall time with the first cause in the bins before and behind it
    call: str
    call_ns: int


@dataclass(frozen=True)
class StopsOfTrack:
    """The stops of one phase name, and its rate in all other bins."""

    track: Track
    spent: Spent | None
    stops: list[ExplainedStop]
    rate: float  # progress per second without the stops
    outside: dict[str, float]  # share of the threads' time that each line has outside of stops


@dataclass(frozen=True)
class ExplainedDip:
    """One dip. account: None, why_not says why."""

    start_ns: int
    end_ns: int
    depth: float
    p: float
    account: Account | None
    why_not: str
    ends: dict[str, list[tuple[str, int]]]  # of each named cause: what its time ended in, ns


@dataclass(frozen=True)
class DipsOfTrack:
    """The search of one phase name. track: with the bins that were searched."""

    track: Track
    search: Search
    bin_s: float
    dips: list[ExplainedDip]
    moves: list[Move]  # series that move with the dips
    spent: Spent | None


def without_stops(track: Track, stops: Sequence[Stop]) -> Track:
    """The track without the bins of its stops."""
    kept = np.ones(track.start_ns.size, dtype=np.bool_)
    for stop in stops:
        kept[stop.first : stop.last] = False
    return track.kept(np.flatnonzero(kept))


def searched(track: Track) -> tuple[Track, I64] | str:
    """The track with bins long enough to be told apart from chance, and the first bin of each; or why not.

    Bins get longer until the median one has CALLS_LEAST calls and few are empty.
    """
    bins = track.start_ns.size
    if bins < BINS_LEAST:
        return f"{bins} bins, of at least {BINS_LEAST}"
    for factor in range(-(-bins // BINS_MOST), bins // BINS_LEAST + 1):
        first = np.arange(0, bins, factor)
        longer = track.joined(first)
        if np.median(longer.calls) >= CALLS_LEAST and (longer.progress == 0).mean() < EMPTY_MOST:
            return longer, first
    return f"too few calls for {BINS_LEAST} bins of {CALLS_LEAST}"


def _longest_call(call: Call, track: Track, stop: Stop) -> tuple[str, int]:
    """The longest call that returned in the bin behind a stop."""
    if stop.last >= track.start_ns.size:
        return "", 0
    begin, end = int(track.start_ns[stop.last]), int(track.end_ns[stop.last])
    middle = call.bin_ns + call.bin_length_ns // 2
    rows = np.flatnonzero((middle >= begin) & (middle < end) & call.target.is_("target"))
    if not rows.size:
        return "", 0
    row = int(rows[call.max_ns[rows].argmax()])
    return call.call.labels[call.call.codes[row]], int(call.max_ns[row])


def measure_stops(
    tracks: Sequence[Track], call: Call, path: PathResults | NoPath, times: ThreadTime | None
) -> list[StopsOfTrack]:
    """The stops of each track that has some."""
    found = []
    for track in tracks:
        stops = find_stops(track)
        if not stops:
            continue
        rest = without_stops(track, stops)
        spent = spent_on(path, times, track.start_ns, track.end_ns)
        explained = []
        is_stop = np.zeros(track.start_ns.size, dtype=np.bool_)
        for stop in stops:
            is_stop[stop.first : stop.last] = True
            bins = np.arange(stop.first, stop.last)
            account = None if spent is None else account_of_stop(spent, track.length_ns, bins)
            ends: list[tuple[str, int]] = []
            beside_s = 0.0
            if spent is not None and account is not None and account.lines:
                key = account.lines[0].key
                ends = spent.ends(key, bins)
                beside = np.array([bin_ for bin_ in (stop.first - 1, stop.last) if 0 <= bin_ < is_stop.size])
                ns = spent.ns[spent.keys.index(key), beside].sum() if beside.size else 0
                beside_s = float(ns) / 1e9 / account.threads_in
            name, ns_of_call = _longest_call(call, track, stop)
            explained.append(ExplainedStop(stop, account, ends, beside_s, name, ns_of_call))
        outside: dict[str, float] = {}
        if spent is not None:
            ns_out = spent.ns[:, ~is_stop].sum(axis=1)
            total = max(int(ns_out.sum()), 1)
            outside = {key: float(ns) / total for key, ns in zip(spent.keys, ns_out.tolist(), strict=True)}
        rate = float(rest.progress.sum()) / rest.seconds if rest.seconds else 0.0
        found.append(StopsOfTrack(track, spent, explained, rate, outside))
    return found


def measure_dips(
    tracks: Sequence[Track],
    path: PathResults | NoPath,
    times: ThreadTime | None,
    block: Block | None,
    counter: Counter | None,
) -> list[DipsOfTrack]:
    """The search of each track; of the longest TRACKS_MOST, if more are long enough."""
    prepared = [(track, without_stops(track, find_stops(track))) for track in tracks]
    made = [(base, searched(base)) for _, base in prepared]
    able = [i for i, (_, one) in enumerate(made) if not isinstance(one, str)]
    able = sorted(able, key=lambda i: -made[i][0].seconds)[:TRACKS_MOST]
    found = []
    for i, (base, one) in enumerate(made):
        if isinstance(one, str) or i not in able:
            why = one if isinstance(one, str) else f"only the {TRACKS_MOST} longest phases are searched"
            found.append(DipsOfTrack(base, Search(base.start_ns.size, why), 0.0, [], [], None))
            continue
        track, first = one
        result = search(track.rate, tests=len(able))
        bin_s = float(np.median(track.length_ns)) / 1e9
        if not result.dips:
            found.append(DipsOfTrack(track, result, bin_s, [], [], None))
            continue
        spent = spent_on(path, times, base.start_ns, base.end_ns)
        if spent is not None:
            spent = Spent(
                spent.basis,
                spent.keys,
                np.add.reduceat(spent.ns, first, axis=1),
                spent.end_keys,
                np.add.reduceat(spent.end_ns, first, axis=1),
            )
        found.append(_explained(track, result, bin_s, spent, series_of_disk(block, counter, track)))
    return found


def _explained(
    track: Track, result: Search, bin_s: float, spent: Spent | None, series: dict[str, Series]
) -> DipsOfTrack:
    seconds = track.length_ns / 1e9
    if spent is not None:
        series |= {
            spent.text(key): Series("s/s", spent.ns[row] / 1e9 / seconds)
            for row, key in enumerate(spent.keys)
        }
    away = [(dip.first, dip.last) for dip in (*result.dips, *result.candidates)]
    is_dip: F64 = np.zeros(seconds.size)
    dips = []
    for dip in result.dips:
        inside = np.arange(dip.first, dip.last)
        is_dip[inside] = 1
        account, why_not, ends = None, "", {}
        if spent is None:
            why_not = "neither switches nor the threads' time were recorded"
        else:
            outside, is_matched = choose_outside(track, inside, away)
            if not outside.size:
                why_not = "no reference: too little time of the phase is away from dips"
            else:
                account = account_of_dip(track, spent, inside, outside, is_matched)
                why_not = "" if account else "no thread was seen at work"
        if account is not None and spent is not None:
            known = [line.key for line in account.named() if line.key in spent.keys]
            ends = {key: spent.ends(key, inside) for key in known}
        dips.append(
            ExplainedDip(
                int(track.start_ns[dip.first]),
                int(track.end_ns[dip.last - 1]),
                dip.depth,
                dip.p,
                account,
                why_not,
                ends,
            )
        )
    return DipsOfTrack(track, result, bin_s, dips, moves(is_dip, series), spent)
