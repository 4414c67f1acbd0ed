# SPDX-License-Identifier: BSD-2-Clause
"""Stable order of rows by a time that nearly sorts them already, such as issue times in completion order.

No row then is far from its sorted position: small groups are sorted one after the other in the CPU's cache,
twice as fast as one sort. If more than FAR rows must wait for a later part, the rest is sorted in runs, which
are merged piece by piece: a sort's working memory does not grow with the rows. The result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from analysis.tables.block import parts
from analysis.tables.store import I64, Ints

PART = 1 << 17
FAR = 4 * PART  # with more waiting rows than this, the rest is sorted in runs
RUN = 1 << 22  # rows of a run
SAMPLES = 256  # of a run: with fewer runs than this a merged piece is shorter than two runs


def _sorted_rows(rows: I64, t: I64) -> I64:
    """The rows ordered by time; rows of equal times keep their order."""
    bits = max(int(rows.size - 1).bit_length(), 1)
    low, high = int(t.min()), int(t.max())
    if high - low >= 1 << (62 - bits):
        return np.asarray(rows[np.argsort(t, kind="stable")])
    keys = (t - low) << bits | np.arange(t.size)  # sorting these is faster than sorting indices
    keys.sort(kind="stable")  # timsort: they are nearly in order
    return np.asarray(rows[keys & ((1 << bits) - 1)])


def _merged(rows: I64, times: I64) -> Iterator[tuple[I64, I64]]:
    """Yield pieces of the rows with their times, later pieces never earlier in time."""
    runs = list(parts(rows.size, RUN))
    ordered, t = np.empty(rows.size, dtype=np.int64), np.empty(rows.size, dtype=np.int64)
    for run in runs:
        ordered[run] = _sorted_rows(rows[run], times[rows[run]])
        t[run] = times[ordered[run]]
    samples = np.sort(np.concatenate([t[run][:: max(RUN // SAMPLES, 1)] for run in runs]))
    pivots = np.unique(samples[SAMPLES::SAMPLES])
    cuts = [np.concatenate(([0], np.searchsorted(t[run], pivots), [t[run].size])) + run.start for run in runs]
    for ends in pairwise(range(pivots.size + 2)):
        pieces = [slice(*cut[list(ends)]) for cut in cuts]
        yield np.concatenate([ordered[at] for at in pieces]), np.concatenate([t[at] for at in pieces])


def groups(times: I64, among: npt.NDArray[np.bool_]) -> Iterator[tuple[I64, I64]]:
    """Yield groups of the rows `among` with their times, later groups never earlier in time."""
    cuts = list(parts(times.size, PART))
    latest = np.iinfo(np.int64).max
    least = np.full(len(cuts) + 1, latest)
    for i, part in enumerate(cuts):
        least[i] = times[part].min(initial=latest, where=among[part])
    later = np.minimum.accumulate(least[::-1])[::-1]  # the earliest time from each part on
    rows = np.zeros(0, dtype=np.int64)
    for i, part in enumerate(cuts):
        rows = np.concatenate((rows, np.flatnonzero(among[part]) + part.start))
        if rows.size > FAR and i + 1 < len(cuts):
            rows = np.concatenate((rows, np.flatnonzero(among[part.stop :]) + part.stop))
            yield from _merged(rows, times)
            return
        t = times[rows]
        ready = t <= later[i + 1]  # of equal times, the earlier row comes first
        if ready.all():
            yield rows, t
            rows = rows[:0]
        else:
            yield rows[ready], t[ready]
            rows = rows[~ready]


def order(times: I64, among: npt.NDArray[np.bool_]) -> Ints:
    """The rows of the mask `among`, ordered by time; rows of equal times keep their order."""
    ordered: Ints = np.empty(
        int(np.count_nonzero(among)), dtype=np.int32 if times.size < 1 << 31 else np.int64
    )
    done = 0
    for rows, t in groups(times, among):
        if rows.size:
            ordered[done : done + rows.size] = _sorted_rows(rows, t)
        done += rows.size
    return ordered


def sorted_times(times: I64, among: npt.NDArray[np.bool_]) -> I64:
    """The times of the rows of the mask `among`, sorted."""
    ordered = np.empty(int(np.count_nonzero(among)), dtype=np.int64)
    done = 0
    for _, t in groups(times, among):
        ordered[done : done + t.size] = np.sort(t, kind="stable")  # timsort: they are nearly in order
        done += t.size
    return ordered
