# SPDX-License-Identifier: BSD-2-Clause
"""Stable order of rows by a time that nearly sorts them already, such as issue times in completion order.

No row then is far from its sorted position: small groups are sorted one after the other in the CPU's cache,
twice as fast as one sort. If more than FAR rows must wait for a later part, the rest is sorted at once. The
result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from analysis.tables.block import parts
from analysis.tables.store import I64, Ints

PART = 1 << 17
FAR = 4 * PART  # with more waiting rows than this, the rest is sorted at once


def _sorted_rows(rows: I64, t: I64) -> I64:
    """The rows ordered by time; rows of equal times keep their order."""
    bits = max(int(rows.size - 1).bit_length(), 1)
    low, high = int(t.min()), int(t.max())
    if high - low >= 1 << (62 - bits):
        return np.asarray(rows[np.argsort(t, kind="stable")])
    keys = (t - low) << bits | np.arange(t.size)  # sorting these is faster than sorting indices
    keys.sort(kind="stable")  # timsort: they are nearly in order
    return np.asarray(rows[keys & ((1 << bits) - 1)])


def _groups(times: I64, among: npt.NDArray[np.bool_]) -> Iterator[tuple[I64, I64]]:
    """Yield groups of the rows `among` with their times, later groups never earlier in time."""
    cuts = list(parts(times.size, PART))
    least = np.full(len(cuts) + 1, np.iinfo(np.int64).max)
    for i, part in enumerate(cuts):
        least[i] = times[part].min()
    later = np.minimum.accumulate(least[::-1])[::-1]  # the earliest time from each part on
    rows = np.zeros(0, dtype=np.int64)
    for i, part in enumerate(cuts):
        rows = np.concatenate((rows, np.flatnonzero(among[part]) + part.start))
        if rows.size > FAR and i + 1 < len(cuts):
            rows = np.concatenate((rows, np.flatnonzero(among[part.stop :]) + part.stop))
            yield rows, times[rows]
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
    for rows, t in _groups(times, among):
        if rows.size:
            ordered[done : done + rows.size] = _sorted_rows(rows, t)
        done += rows.size
    return ordered
