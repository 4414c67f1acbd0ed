# SPDX-License-Identifier: BSD-2-Clause
"""CPU time taken by other programs is found with its seconds and the programs' names, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.causes.roles import OTHER, RECORDER
from analysis.findings import cpu_taken
from analysis.findings.finding import Certainty
from analysis.measures.cpu.waits import PROGRAMS, WHOSE, measure_cpu_waits
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.sums import KERNEL_THREAD, NOT_LOGGED, WHO_NOT_SEEN
from analysis.measures.ledger import measure_ledger
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, ready, share, spec_of, times

HOGGED = (
    on_cpu(1, 6000),
    times(1, "runnable", 3.6, by="other"),
    times(1, "runnable", 0.4, by="recorder"),
    on_cpu(6, 0, 9000),
)


def test_hog_is_found_by_name(tmp_path: Path) -> None:
    shares = [share(6.0), ready(3.6, OTHER, NOT_LOGGED), ready(0.4, RECORDER, NOT_LOGGED)]
    (finding,) = cpu_taken.find(case_of(tmp_path / "r", spec_of(*HOGGED), path_of(shares)))
    assert finding.cost.value_s == pytest.approx(3.6, rel=1e-3)
    assert finding.certainty == Certainty.SURE
    assert "3.60 s of 10.0 s (36 %)" in finding.what
    assert finding.because[0] == "By the CPU time that each used meanwhile it was hog 3.60 s."
    assert finding.evidence[1].inside == pytest.approx(9.0)
    assert finding.test == "stop hog, then: make trace FS=ext4 WL=compilebench"
    assert finding.lines == {"others"}


def test_phase_in_which_it_happened_is_named(tmp_path: Path) -> None:
    shares = [share(3.0, phase="order"), share(3.0, phase="create")]
    shares += [ready(3.9, OTHER, NOT_LOGGED, phase="create"), ready(0.1, OTHER, NOT_LOGGED, phase="order")]
    (finding,) = cpu_taken.find(case_of(tmp_path / "r", spec_of(*HOGGED), path_of(shares)))
    assert finding.where.phases == ("create",)


def test_what_held_up_a_worker_below_counts(tmp_path: Path) -> None:
    waiting = share(2.0, Kind.READY, OTHER, NOT_LOGGED, "log_space", is_below=True)
    known = share(1.0, Kind.READY, OTHER, "ksoftirqd/0", "log_space")
    shares = [share(6.0), waiting, known, share(1.0, Kind.DEVICE, "", "app", "log_space")]
    spec = spec_of(on_cpu(1, 6000), on_cpu(6, 0, 9000))
    (finding,) = cpu_taken.find(case_of(tmp_path / "r", spec, path_of(shares)))
    assert finding.cost.value_s == pytest.approx(2.0)
    assert finding.lines == {"log_space"}


def test_without_a_path_the_threads_tell(tmp_path: Path) -> None:
    (finding,) = cpu_taken.find(case_of(tmp_path / "r", spec_of(*HOGGED)))
    assert finding.cost.value_s == pytest.approx(3.6, rel=0.01)
    assert finding.certainty == Certainty.LIKELY and "without the critical path" in finding.doubt


def test_unseen_occupants_make_it_less_sure(tmp_path: Path) -> None:
    shares = [share(6.0), ready(2.0, OTHER, NOT_LOGGED), ready(2.0, OTHER, WHO_NOT_SEEN)]
    spec = spec_of(on_cpu(1, 6000), times(1, "runnable", 2.0, by="other"), on_cpu(6, 0, 2000))
    (finding,) = cpu_taken.find(case_of(tmp_path / "r", spec, path_of(shares)))
    assert finding.cost.value_s == pytest.approx(2.0)
    assert finding.cost.high_s == pytest.approx(4.0)
    assert finding.certainty == Certainty.LIKELY and "2.00 s" in finding.doubt


def test_busy_program_that_held_nobody_up_is_none(tmp_path: Path) -> None:
    shares = [share(9.95), ready(0.03, OTHER, NOT_LOGGED), ready(0.02, OTHER, "ksoftirqd/0")]
    spec = spec_of(on_cpu(1, 9950), times(1, "runnable", 0.05, by="other"), on_cpu(6, 0, 10000))
    assert not cpu_taken.find(case_of(tmp_path / "r", spec, path_of(shares)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**9),
            st.sampled_from([*WHOSE, OTHER]),
            st.sampled_from([NOT_LOGGED, KERNEL_THREAD, WHO_NOT_SEEN, "ksoftirqd/0", "kworker x", "app"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_wait_for_a_cpu_is_somebodys(drawn: list[tuple[int, str, str, bool]]) -> None:
    shares = [
        share(ns / 1e9, Kind.READY, role, name, "ready" if own else "lock", is_below=not own)
        for ns, role, name, own in drawn
    ]
    waits = measure_cpu_waits(measure_ledger(path_of(shares), None, 1.0), None, frozenset({"ksoftirqd/0"}))
    assert set(waits) <= set(WHOSE)
    assert sum(wait.ns for wait in waits.values()) == sum(one.ns for one in shares)
    programs = sum(one.ns for one in shares if one.role == OTHER and one.name in (NOT_LOGGED, "app"))
    assert (waits[PROGRAMS].ns if PROGRAMS in waits else 0) >= programs
