# SPDX-License-Identifier: BSD-2-Clause
"""What the rules on waits measure, against a naive reference: spans, sleeps that go on, pages read again."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.waits.explained import NEXT_NS, goes_on
from analysis.measures.waits.meanwhile import is_inside, overlaps
from analysis.measures.waits.on_path import covered

TIMES = st.integers(0, 60)
# thread, rows, whether it follows the one before at once, call path
SLEEPS = st.tuples(st.integers(0, 1), st.integers(1, 3), st.booleans(), st.integers(1, 2))
PAIRS = st.tuples(TIMES, st.integers(1, 9))


def spans_of(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Spans that ascend and do not overlap."""
    begin, end, at = [], [], 0
    for gap, length in pairs:
        begin.append(at + gap)
        end.append(at + gap + length)
        at = end[-1] + 1
    return np.array(begin, dtype=np.int64), np.array(end, dtype=np.int64)


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=6), st.lists(PAIRS, min_size=1, max_size=9))
def test_times_and_intervals_within_spans(pairs: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    spans = spans_of(pairs)
    begin = np.array([a for a, _ in asked], dtype=np.int64)
    end = np.array([a + n for a, n in asked], dtype=np.int64)
    whole = list(zip(*(one.tolist() for one in spans), strict=True))
    assert is_inside(begin, spans).tolist() == [any(a <= t < b for a, b in whole) for t in begin.tolist()]
    expected = [
        any(a < e and b > t for a, b in whole) for t, e in zip(begin.tolist(), end.tolist(), strict=True)
    ]
    assert overlaps(begin, end, spans).tolist() == expected


@settings(deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=6), st.lists(PAIRS, min_size=1, max_size=6))
def test_time_of_the_path_within_spans(pieces: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    begin, end = spans_of(pieces)
    first = np.array([a for a, _ in asked], dtype=np.int64)
    last = np.array([a + n for a, n in asked], dtype=np.int64)
    ticks = {t for a, b in zip(begin.tolist(), end.tolist(), strict=True) for t in range(a, b)}
    expected = [
        sum(t in ticks for t in range(a, b)) for a, b in zip(first.tolist(), last.tolist(), strict=True)
    ]
    assert covered(begin, end, first, last).tolist() == expected


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), st.booleans(), st.integers(1, 2)), max_size=12)
)
def test_sleep_goes_on_if_the_next_one_follows_at_once(sleeps: list[tuple[int, int, bool, int]]) -> None:
    """Of two threads. All rows of a sleep are alike."""
    rows: list[tuple[int, int, int, int, int]] = []  # root, sleep, begin, end, stack
    at = [0, 0]
    last: list[tuple[int, int, int] | None] = [None, None]  # sleep, end, stack
    expected: dict[int, bool] = {}
    for sleep, (root, parts, is_near, stack) in enumerate(sleeps):
        at[root] += NEXT_NS if is_near else NEXT_NS + 1
        before = last[root]
        expected[sleep] = False
        if before is not None:
            expected[before[0]] = before[2] == stack and is_near
        for _ in range(parts):
            rows.append((root, sleep, at[root], at[root] + 10, stack))
            at[root] += 10
        last[root] = sleep, at[root], stack
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(5)]
    assert goes_on(*columns).tolist() == [expected[row[1]] for row in rows]
