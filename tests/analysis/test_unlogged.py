# SPDX-License-Identifier: BSD-2-Clause
"""Time with a CPU's occupant that is not logged is divided by thread_time, and keeps its sum."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.causes.roles import DISK, FILESYSTEM, OTHER, RECORDER, WORKLOAD
from analysis.measures.cpu.unlogged import UNLOGGED, divided
from analysis.measures.critical_path.owners import IDLE
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share
from analysis.measures.critical_path.sums import NOT_LOGGED
from analysis.measures.threads.results import ThreadResults
from tests.analysis.cpu_cases import case_of, on_cpu, ready, share, spec_of, times


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> ThreadResults:
    spec = spec_of(
        on_cpu(1, 1000),
        times(1, "runnable", 0.1, by="idle"),
        times(1, "runnable", 0.8, by="other"),
        times(1, "runnable", 0.1, by="recorder"),
        times(3, "runnable", 1.0, by="other"),
    )
    found = case_of(tmp_path_factory.mktemp("run") / "r", spec).results.threads
    assert found is not None
    return found


def test_idle_cpus_are_not_idle_until_a_logged_thread_comes(threads: ThreadResults) -> None:
    shares = [ready(2.0, IDLE, "idle"), ready(1.0, WORKLOAD, "app")]
    shares += [share(1.0, Kind.READY, OTHER, NOT_LOGGED, "lock")]
    found = {(one.role, one.is_own): one.ns / 1e9 for one in divided(shares, threads)}
    assert found[OTHER, True] == pytest.approx(1.6)
    assert found[IDLE, True] == found[RECORDER, True] == pytest.approx(0.2)
    assert found[WORKLOAD, True] == 1.0  # it is logged
    assert found[OTHER, False] == 1.0


def test_without_thread_time_the_path_stands() -> None:
    shares = [ready(2.0, IDLE, "idle")]
    assert divided(shares, None) == shares


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**12),
            st.sampled_from([OTHER, RECORDER, IDLE, WORKLOAD, FILESYSTEM, DISK]),
            st.sampled_from([*UNLOGGED, "app"]),
            st.booleans(),
            st.integers(0, 100),
        ),
        max_size=12,
    )
)
def test_sums_are_kept(threads: ThreadResults, drawn: list[tuple[int, str, str, bool, int]]) -> None:
    shares: list[Share] = [
        share(ns / 1e9, Kind.READY, role, name, "ready" if own else "lock", weak_ns=ns * weak // 100)
        for ns, role, name, own, weak in drawn
    ]
    found = divided(shares, threads)
    assert sum(one.ns for one in found) == sum(one.ns for one in shares)
    assert sum(one.weak_ns for one in found) == sum(one.weak_ns for one in shares)
    assert all(0 <= one.weak_ns <= one.ns + 1 and one.ns > 0 for one in found)
