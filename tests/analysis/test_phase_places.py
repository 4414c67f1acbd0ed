# SPDX-License-Identifier: BSD-2-Clause
"""Which phases each moment lies in, against the phases one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.app.phases import OUTSIDE
from analysis.measures.origin import phase_places
from analysis.tables.phase import Phases

WINDOW = (5, 50)
spans = st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 30))


def phases(rows: list[tuple[str, int, int]]) -> Phases:
    rows = sorted(rows, key=lambda row: row[1])
    start = np.array([begin for _, begin, _ in rows], dtype=np.int64)
    end = start + np.array([length for _, _, length in rows], dtype=np.int64)
    nothing: Any = np.zeros(len(rows), dtype=np.int64)
    return Phases([name for name, _, _ in rows], start, end, nothing, nothing, start, end)


@given(st.lists(spans, min_size=1, max_size=6))
def test_places_are_those_of_trying_each_phase(rows: list[tuple[str, int, int]]) -> None:
    marked = phases(rows)
    scale = phase_places.LEAST_REST_NS
    scaled = replace(marked, start_ns=marked.start_ns * scale, end_ns=marked.end_ns * scale)
    places = phase_places.PhasePlaces(scaled, (WINDOW[0] * scale, WINDOW[1] * scale))
    found = places.of(np.arange(100) * scale)
    for t, place in enumerate(found.tolist()):
        expected = {name for name, begin, length in rows if begin <= t < begin + length}
        if not WINDOW[0] <= t < WINDOW[1]:
            expected = set()
        elif not expected and OUTSIDE in places.inside:
            expected = {OUTSIDE}
        assert {name for name, inside in places.inside.items() if place in inside} == expected
