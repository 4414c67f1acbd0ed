# SPDX-License-Identifier: BSD-2-Clause
"""Who had the CPU of those that are not logged: divided by thread_time's sums of the same thread and time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.causes.roles import OTHER, RECORDER
from analysis.measures.critical_path.occupancy import make_occupancy
from analysis.measures.critical_path.unlogged import ROLES, Unlogged, make_unlogged
from analysis.tables import thread_time
from analysis.tables.store import I64
from tests.analysis.cpu_cases import case_of, on_cpu, spec_of, times
from tests.analysis.schedules import Schedule
from tests.analysis.synthetic import BIN_NS, START_NS

APP = 1  # thread number


@pytest.fixture(scope="module")
def unlogged(tmp_path_factory: pytest.TempPathFactory) -> Unlogged:
    """Nine tenths of the waits are for other programs, one for the recorder; of the first bin all for it."""
    rows = times(APP, "runnable", 0.9, by=OTHER)[1:] + times(APP, "runnable", 0.1, by=RECORDER)
    rows += times(6, "runnable", 0.5, by="idle")
    case = case_of(tmp_path_factory.mktemp("run") / "r", spec_of(on_cpu(1, 1000), rows))
    found = make_unlogged(case.tables.get(thread_time.TABLE))
    assert found is not None
    return found


def _at(*numbers: int) -> I64:
    return np.array(numbers, dtype=np.int64)


def _ns_by_role(unlogged: Unlogged, thread: int, begin: int, end: int) -> dict[str, int]:
    _, begins, ends, role = unlogged.divide(_at(thread), _at(begin), _at(end))
    return {
        ROLES[code] if code >= 0 else "": int(ns)
        for code, ns in zip(role.tolist(), (ends - begins).tolist(), strict=True)
    }


def test_a_span_is_divided_as_thread_time_divides_its_bins(unlogged: Unlogged) -> None:
    middle = START_NS + 50 * BIN_NS
    assert _ns_by_role(unlogged, APP, middle, middle + 1_000) == {OTHER: 900, RECORDER: 100}
    assert _ns_by_role(unlogged, APP, START_NS + 5, START_NS + 1_005) == {RECORDER: 1_000}


def test_a_span_over_several_bins_has_their_sums(unlogged: Unlogged) -> None:
    found = _ns_by_role(unlogged, APP, START_NS, START_NS + 2 * BIN_NS)
    assert found[OTHER] / (2 * BIN_NS) == pytest.approx(9 / 11)


def test_of_a_thread_without_such_waits_nothing_is_known(unlogged: Unlogged) -> None:
    assert _ns_by_role(unlogged, 3, START_NS, START_NS + 10) == {"": 10}
    outside = START_NS - 10 * BIN_NS  # no row of the next thread is taken
    assert _ns_by_role(unlogged, APP, outside, outside + 10) == {"": 10}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1, 3, 6]), st.integers(-3, 103), st.integers(1, 10**9)), max_size=9)
)
def test_pieces_keep_the_spans_time(unlogged: Unlogged, drawn: list[tuple[int, int, int]]) -> None:
    thread, begin, length = (_at(*(one[i] for one in drawn)) for i in range(3))
    begin = START_NS + begin * BIN_NS
    span, begins, ends, _ = unlogged.divide(thread, begin, begin + length)
    assert (ends > begins).all()
    assert np.bincount(span, ends - begins, thread.size).astype(np.int64).tolist() == length.tolist()
    assert (begins[1:] >= ends[:-1])[span[1:] == span[:-1]].all()


def test_only_time_of_threads_that_are_not_logged_is_divided(unlogged: Unlogged) -> None:
    """On CPU 0 idle comes, then thread 3, which is logged, then thread 1, which had waited."""
    t = START_NS + 50 * BIN_NS
    schedule = Schedule()
    schedule.switch(t, 0, APP)
    schedule.switch(t + 100, APP, 0, next_role="idle")
    schedule.switch(t + 1_100, 0, 3)
    schedule.switch(t + 1_300, 3, APP)
    occupancy = make_occupancy(schedule.switch_table, START_NS, t + 2_000, unlogged)
    _, begin, end, row = occupancy.pieces(_at(APP), np.zeros(1, dtype=np.int32), _at(t + 100), _at(t + 1_300))
    labels = occupancy.role.labels
    found = [
        (int(occupancy.thread[one]), labels[occupancy.role.codes[one]], int(ns))
        for one, ns in zip(row.tolist(), end - begin, strict=True)
    ]
    assert sorted(found) == [(0, OTHER, 900), (0, RECORDER, 100), (3, "workload", 200)]
