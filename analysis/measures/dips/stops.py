# SPDX-License-Identifier: BSD-2-Clause
"""Stops: time in which no call of the workload on the file system returned, counted to the bin.

A stop is LEAST_S long at least, and as long as LEAST_CALLS calls take otherwise: a workload of few long calls
has empty bins all the time. Nothing is tested: the time of the empty bins is what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.dips.tracks import Track

LEAST_S = 0.25
LEAST_CALLS = 10
MOST_SHARE = 0.9  # of a track; what hardly ever calls does not stop
GAP_NS = 20_000_000  # between two bins of one stop


@dataclass(frozen=True)
class Stop:
    """Bins [first, last) of a track without a call."""

    first: int
    last: int
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Length; the true one is longer by less than the bin before and that behind it."""
        return (self.end_ns - self.start_ns) / 1e9


def find_stops(track: Track) -> list[Stop]:
    """The stops of a track, by time."""
    calls = track.kind_calls.sum(axis=0)
    empty = calls == 0
    total = int(calls.sum())
    if total < LEAST_CALLS or not empty.any():
        return []
    apart = np.concatenate(([True], track.start_ns[1:] - track.end_ns[:-1] > GAP_NS))
    begins = np.flatnonzero(empty & (apart | ~np.concatenate(([False], empty[:-1]))))
    behind = np.concatenate((apart[1:], [True])) | ~np.concatenate((empty[1:], [False]))
    ends = np.flatnonzero(empty & behind)
    runs = [
        Stop(a, b + 1, int(track.start_ns[a]), int(track.end_ns[b]))
        for a, b in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    # what a call takes otherwise: without the runs that may be stops
    long = [run for run in runs if run.seconds >= LEAST_S]
    left_s = track.seconds - sum(run.seconds for run in long)
    least = max(LEAST_S, LEAST_CALLS * left_s / total)
    stops = [run for run in long if run.seconds >= least]
    return stops if sum(stop.seconds for stop in stops) <= MOST_SHARE * track.seconds else []
