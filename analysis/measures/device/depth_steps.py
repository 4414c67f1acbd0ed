# SPDX-License-Identifier: BSD-2-Clause
"""Number of open intervals at each moment at which one begins or ends.

Begins and ends are sorted separately and merged in chunks that fit into a CPU's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from analysis.measures.common.sort import sorted_times
from analysis.tables.block import parts
from analysis.tables.store import I64

CHUNK = 1 << 16  # begins at a time
FAR = 1 << 60  # 36 years, in ns: moments farther away than this count as at that distance


def in_order(times: I64, among: npt.NDArray[np.bool_]) -> I64:
    """The times of the rows `among`, sorted; not a copy if they are already."""
    chosen_times = times if among.all() else times[among]
    if all(
        (chosen_times[at.start + 1 : at.stop + 1] >= chosen_times[at]).all()
        for at in parts(chosen_times.size - 1)
    ):
        return chosen_times
    return sorted_times(times, among)


def steps(begin: I64, end: I64, zero_ns: int) -> Iterator[tuple[I64, I64]]:
    """Moments (after zero_ns) in order, each once, and how many intervals [begin, end) are open from then on.

    begin and end: sorted. Of all begins and ends at one moment only the sum counts: the depths between
    them last for no time. So an interval that is empty, or begins as another ends, adds nothing.
    """
    at = begin[CHUNK::CHUNK]
    begun = np.concatenate(([0], np.searchsorted(begin, at), [begin.size]))
    ended = np.concatenate(([0], np.searchsorted(end, at), [end.size]))
    depth = 0
    for (b0, b1), (e0, e1) in zip(pairwise(begun), pairwise(ended), strict=True):
        # moment and kind in one number
        events = np.concatenate((begin[b0:b1], end[e0:e1]))
        if not events.size:
            continue
        events -= zero_ns
        np.clip(events, -FAR, FAR, out=events)
        events <<= 1
        events[: b1 - b0] |= 1
        events.sort(kind="stable")  # timsort merges the two
        depths = ((events & 1) << 1) - 1
        depths[0] += depth
        np.cumsum(depths, out=depths)
        depth = int(depths[-1])
        events >>= 1
        last = np.append(events[1:] != events[:-1], True)
        yield events[last], depths[last]
