# SPDX-License-Identifier: BSD-2-Clause
"""Order of rows by a nearly sorted time: equals numpy's stable sort, however far a row is from its place."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.measures.common import sort

ROWS = 20_000


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("width", [1, 50, 3000, 10**7, 1 << 61])
def test_order_equals_a_stable_sort(monkeypatch: pytest.MonkeyPatch, seed: int, width: int) -> None:
    for name, value in {"PART": 64, "FAR": 256, "RUN": 700, "SAMPLES": 8}.items():
        monkeypatch.setattr(sort, name, value)
    random = np.random.default_rng(seed)
    times = np.arange(ROWS) * 5 + random.integers(0, width, ROWS)
    times[random.integers(0, ROWS, seed // 5)] = 1 << 61  # requests that took years
    times[random.integers(0, ROWS, seed // 3)] = 0  # and times that are not known
    among = random.random(ROWS) < (1.0, 0.9, 0.02, 0.0)[seed % 4]
    among &= times > 0
    rows = np.flatnonzero(among)
    expected = rows[np.argsort(times[rows], kind="stable")]
    assert np.array_equal(sort.order(times, among), expected)
    assert np.array_equal(sort.sorted_times(times, among), times[expected])


def test_sort_in_runs_takes_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PART": 64, "FAR": 256, "RUN": 700, "SAMPLES": 70}.items():
        monkeypatch.setattr(sort, name, value)
    times = np.random.default_rng(1).permutation(ROWS)
    sizes = [rows.size for rows, _ in sort.groups(times, np.ones(ROWS, dtype=np.bool_))]
    assert sum(sizes) == ROWS
    assert max(sizes) < 2 * 700
