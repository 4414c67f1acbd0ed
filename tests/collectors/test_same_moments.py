# SPDX-License-Identifier: BSD-2-Clause
"""The comparison of two tracers' times finds a wrong one among many, and lets a stopped CPU pass."""

from __future__ import annotations

import pytest

from tests.analysis.importers.blktrace_files import Event
from tests.collectors.same_moments import Moments, Pairs

STEP_NS = 30_000
COUNT = 1000


def compare(pairs: Pairs, **tolerance: int) -> None:
    """A thread that does something every 30 us, and what another tracer made of that."""
    events = [Event(t_ns, "D", 8 * t_ns, 4096, pid=100) for _, t_ns in pairs]
    Moments([b"".join(event.pack("<") for event in events)]).assert_same("D", pairs, **tolerance)


def good() -> Pairs:
    return [(at + 400, at) for at in range(10**12, 10**12 + COUNT * STEP_NS, STEP_NS)]


def test_equal_events_have_equal_times() -> None:
    pairs = good()
    compare(pairs)
    # The CPU is taken away for a second between the two tracers: nothing else was done then.
    compare(
        [
            *pairs[:500],
            (pairs[500][1] + 10**9, pairs[500][1]),
            *((a + 10**9, b + 10**9) for a, b in pairs[501:]),
        ]
    )


def test_wrong_time_of_one_event_is_found() -> None:
    pairs = good()
    pairs[500] = (pairs[502][0], pairs[500][1])
    with pytest.raises(AssertionError, match="D"):
        compare(pairs)
    compare(pairs, missed=1)
    pairs[600] = (pairs[601][0], pairs[600][1])
    with pytest.raises(AssertionError, match="D"):
        compare(pairs, missed=1)


def test_time_before_the_first_tracers_is_found() -> None:
    pairs = good()
    pairs[500] = (pairs[500][1] - 10, pairs[500][1])
    with pytest.raises(AssertionError, match="the other tracer was first"):
        compare(pairs)
    compare(pairs, rounded_ns=1000)


def test_late_clock_is_found() -> None:
    with pytest.raises(AssertionError, match="D"):
        compare([(theirs + 20 * 11_000, theirs) for _, theirs in good()], missed=COUNT)
