# SPDX-License-Identifier: BSD-2-Clause
"""Stops by a signal are found, and are no work of the program that ended them; waits go on behind a stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.causes.classify import Waited
from analysis.causes.roles import OTHER
from analysis.findings import other_programs, stopped
from analysis.findings.finding import Certainty
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import OwnWaits
from analysis.measures.critical_path.stopped import over_stops
from tests.analysis.cpu_cases import case_of, on_cpu, path_of, share, spec_of
from tests.analysis.schedules import STATES, Schedule

FUTEX, STOP, TRACED = 1, 2, 3
STACKS = {
    FUTEX: ("__schedule+0x1", "schedule+0x2", "futex_do_wait+0x3"),
    STOP: ("__schedule+0x1", "schedule+0x2", "do_signal_stop+0x3", "get_signal+0x4"),
    TRACED: ("__schedule+0x1", "schedule+0x2", "ptrace_stop+0x3", "get_signal+0x4"),
}
MS = 1_000_000


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("do_signal_stop", "stopped by a signal"),
        ("ptrace_stop", "stopped by a tracer"),
        ("__refrigerator", "frozen with its cgroup, or with the machine"),
        ("", "stopped or frozen"),
    ],
)
def test_stop_and_what_stopped(tmp_path: Path, place: str, how: str) -> None:
    shares = [share(4.0), share(6.0, Kind.UNLOGGED, OTHER, "bash", "stopped")]
    waits = [OwnWaits(Waited("stopped", place), 2, 6_000_000_000, 5_000_000_000)]
    case = case_of(tmp_path / "r", spec_of(on_cpu(1, 4000)), path_of(shares, own_waits=waits))
    (finding,) = stopped.find(case)
    assert finding.what == f"The workload was {how}: 6.00 s of 10.0 s (60 %)."
    assert finding.because == ["2 stops, the longest 5.00 s."]
    assert finding.cost.value_s == pytest.approx(6.0) and finding.certainty == Certainty.SURE
    assert not other_programs.find(case)


def test_nothing_stopped(tmp_path: Path) -> None:
    shares = [share(4.0), share(6.0, Kind.CPU, OTHER, "server", "ipc")]
    case = case_of(tmp_path / "r", spec_of(on_cpu(1, 4000)), path_of(shares))
    assert not stopped.find(case) and other_programs.find(case)


def _interrupted(stack_of_stop: int, ran_ms: float = 0.1) -> tuple[int, int, int]:
    """Thread 1 waits for 2, is stopped by 3 for a time, and waits for 2 again: who ends its first sleep."""
    schedule = Schedule()
    schedule.switch(0, 1, 0, stack_id=FUTEX)
    schedule.wake(10 * MS, 1, 3)
    schedule.switch(10 * MS + 10, 0, 1)
    schedule.switch(round((10 + ran_ms) * MS), 1, 0, "other", stack_id=stack_of_stop)
    schedule.wake(50 * MS, 1, 3)
    schedule.switch(50 * MS + 10, 0, 1)
    schedule.switch(50 * MS + 500, 1, 0, stack_id=FUTEX)
    schedule.wake(90 * MS, 1, 2)
    schedule.switch(90 * MS + 10, 0, 1)
    schedule.switch(99 * MS, 1, 2)
    intervals = over_stops(schedule.intervals(100 * MS), STATES, STACKS)
    of_first = (intervals.begin == 0) & (intervals.numbers[intervals.thread] == 1)
    (row,) = intervals.wake[of_first].tolist()
    waker = schedule.wakes[row]["waker"]
    return waker, row, len(schedule.wakes)


def test_wait_goes_on_behind_a_stop() -> None:
    assert _interrupted(STOP) == (2, 2, 3)


def test_wait_before_a_tracers_stop_had_ended() -> None:
    assert _interrupted(TRACED)[0] == 3


def test_wait_had_ended_where_the_thread_went_on_to_run() -> None:
    assert _interrupted(STOP, ran_ms=5)[0] == 3
