# SPDX-License-Identifier: BSD-2-Clause
"""Two tracers' times of the same events: how far apart they may be, by what the thread did in between.

Both hook the same tracepoints, and each reads the clock for itself, one directly after the other. An
interrupt in between, or a host that takes the CPU away, makes a single distance as long as it likes. But
the tracer that is called first is so each time, and the thread that runs both does nothing else in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from tests.collectors.blk_tracer import records
from tests.collectors.recording import SLOWER

# Of one half of all events: the first tracer's work, 50 to 1000 ns here. No chance takes the CPU so often.
MEDIAN_NS = 10_000 * SLOWER
# BLK_TC_ACT(BLK_TC_NOTIFY) and __BLK_TA_COMPLETE of linux/blktrace_api.h
NOTE, COMPLETE = 0x04000000, 8

Pairs = list[tuple[int, int]]


class Moments:
    """Times of each thread's events on each CPU, from the blk tracer's records."""

    def __init__(self, streams: Iterable[bytes]) -> None:
        self._where: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._did: dict[tuple[int, int], list[int]] = defaultdict(list)
        for stream in streams:
            for t_ns, action, thread in _events(stream):
                self._where[t_ns].append(thread)
                if action != COMPLETE:  # which an interrupt traces under the name of the thread it interrupts
                    self._did[thread].append(t_ns)
        for times in self._did.values():
            times.sort()

    def assert_same(self, what: str, pairs: Pairs, rounded_ns: int = 0, missed: int = 0) -> None:
        """The other tracer's times and the blk tracer's are of the same events.

        rounded_ns: the unit of the other tracer's times, if it is no ns. missed: events it has not recorded,
        each of which may leave one time to another event.
        """
        others = [pair for pair in pairs if not self._same(*pair, rounded_ns)]
        away = np.array([mine - theirs for mine, theirs in pairs], dtype=np.int64)
        sizes = np.abs(away)
        print(f"{what}: {len(pairs)} compared, median {np.median(sizes):.0f} ns, max {sizes.max()} ns")
        assert len(others) <= missed, (what, others)
        assert np.median(sizes) <= MEDIAN_NS + rounded_ns, what
        first = min((away < -rounded_ns).sum(), (away > rounded_ns).sum())
        assert first <= missed, f"{what}: {first} of {len(pairs)} times the other tracer was first"

    def _same(self, mine: int, theirs: int, rounded_ns: int) -> bool:
        """Return whether the thread of the event at `theirs` has no event between the two times."""
        after, before = min(mine, theirs) + rounded_ns, max(mine, theirs) - rounded_ns
        for thread in self._where[theirs]:  # several, if two CPUs had an event each at the same ns
            times = self._did[thread]
            at = bisect_right(times, after)
            if at == len(times) or times[at] >= before:
                return True
        return False


def _events(stream: bytes) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Time, action, and (CPU, thread) of each event."""
    for fields, _ in records(stream):
        if not fields[5] & NOTE:
            yield fields[2], fields[5] & 0xFF, (fields[8], fields[6])
