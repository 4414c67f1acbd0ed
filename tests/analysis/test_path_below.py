# SPDX-License-Identifier: BSD-2-Clause
"""The critical path below a loop device: its worker, the disk that has its file, and what the report says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from analysis.measures.critical_path.below import find_below, in_other_work
from analysis.measures.critical_path.causes import is_idle
from analysis.measures.critical_path.ends import apparatus_time, ends
from analysis.report import make_report
from tests.analysis.schedules import DEV, STATES, Schedule
from tests.analysis.test_critical_path import APP, JBD2, LOOP, MS, RECORDER, measured, write


def read_of_a_loop_device(is_told: bool = True) -> Schedule:
    """The application reads for 700 ms.

    The loop device's worker is woken with the request at 110 ms, waits until 160 ms for the CPU that the
    recorder has, and runs to 200 ms. The disk below has its part from 190 to 760 ms; it is back at 800 ms.
    """
    schedule = Schedule()
    schedule.switch(0, 0, APP, cpu=0)
    schedule.switch(-30, 0, RECORDER, cpu=1)
    schedule.request(100, 110, 800, sector=64, submitter=APP)
    if is_told:
        schedule.requests[-1] |= {"below_start_us": 80_000, "below_end_us": 650_000}
    schedule.wake(110, LOOP, APP)
    schedule.switch(111, APP, 0, cpu=0, state="io_wait")
    schedule.switch(160, RECORDER, LOOP, cpu=1, state="preempted")
    schedule.switch(200, LOOP, RECORDER, cpu=1)
    schedule.completion(800, APP, sector=64)
    schedule.switch(800, 0, APP, cpu=0)
    return schedule


@pytest.mark.parametrize("is_told", [True, False])
def test_path_is_divided_below_a_loop_device(tmp_path: Path, is_told: bool) -> None:
    found = measured(write(tmp_path / "run", read_of_a_loop_device(is_told)))
    sums = {end.text: round(end.ns / MS) for end in ends(found.shares)}
    below = {text: ms for text, ms in sums.items() if text.startswith(("apparatus", "at the device"))}
    if is_told:
        assert below == {
            "apparatus: the loop worker is ready": 50 - 1,
            "apparatus: the loop worker runs": 30,
            "at the device, on the disk below: write journal": 760 - 190,
            "apparatus: the loop device hands it on": 40,
        }
    else:
        assert below == {
            "apparatus: the loop worker is ready": 50 - 1,
            "apparatus: the loop worker runs": 40,
            "at the device: write journal": 600,
        }
        assert found.coverage.weak_ns > 0
    # all of it is still the request's
    (request,) = found.requests
    assert round(request.device_ns / MS) == 800 - 111
    time = apparatus_time(found.shares)
    assert round(time.loop_ns / MS) == round(time.ns / MS) == (119 if is_told else 89)


def test_worker_that_had_no_work_as_the_request_came_is_not_waited_for() -> None:
    """Another worker of the loop device runs before the request ends: it had slept until then."""
    schedule = read_of_a_loop_device(is_told=False)
    schedule.switch(0, 0, JBD2, cpu=2)
    schedule.switch(5, JBD2, 0, cpu=2)
    schedule.wake(600, JBD2, RECORDER)
    schedule.switch(601, 0, JBD2, cpu=2)
    schedule.switch(620, JBD2, 0, cpu=2)
    intervals = schedule.intervals(900)
    request = schedule.requests[-1]
    is_worker = np.isin(intervals.numbers, (LOOP, JBD2))
    idle = is_idle(intervals, is_worker, STATES)
    (issue, complete) = (np.array([request[name]]) for name in ("issue", "complete"))
    not_told = np.zeros(1, dtype=np.int64)
    elsewhere = np.zeros(idle.size, dtype=np.bool_)
    below = find_below(
        np.array([DEV]), issue, complete, not_told, not_told, intervals, is_worker, idle, elsewhere
    )
    assert intervals.numbers[below.worker[0]] == LOOP
    assert below.worker_until_ns[0] == 200


def test_worker_that_sleeps_in_other_work_is_not_waited_for() -> None:
    """Another kworker, which has served loop devices, too, writes back and waits for a place in the queue."""
    schedule = read_of_a_loop_device(is_told=False)
    schedule.switch(0, 0, JBD2, cpu=2)
    schedule.switch(105, JBD2, 0, cpu=2, state="io_wait", stack_id=1)
    intervals = schedule.intervals(900)
    request = schedule.requests[-1]
    is_worker = intervals.numbers == JBD2
    idle = is_idle(intervals, is_worker, STATES)
    (issue, complete) = (np.array([request[name]]) for name in ("issue", "complete"))
    not_told = np.zeros(1, dtype=np.int64)
    found = {}
    for work in ("wb_workfn", "loop_workfn"):
        stacks = {1: ["schedule+0x23", "rq_qos_wait+0xad", f"{work}+0x2a6", "process_one_work+0x18c"]}
        elsewhere = in_other_work(intervals, stacks, np.zeros(idle.size, dtype=np.bool_))
        below = find_below(
            np.array([DEV]), issue, complete, not_told, not_told, intervals, is_worker, idle, elsewhere
        )
        found[work] = below.worker[0] >= 0
    assert found == {"wb_workfn": False, "loop_workfn": True}


def test_report_tells_the_disk_below_from_the_loop_device(tmp_path: Path) -> None:
    path = write(tmp_path / "run", read_of_a_loop_device())
    make_report(path)
    shown = " ".join((path / "report.txt").read_text().split())
    assert "at the device, on the disk below: write journal" in shown
    assert "the apparatus held the workload up: 0.12 s of the path (13.2 %)" in shown
    assert "nor the tested disk's: the loop device and the file system below it 0.12 s" in shown


def test_report_says_that_the_loop_device_was_slow(tmp_path: Path) -> None:
    """As above, but the disk below has the request for 100 ms only: the loop device has it for the rest."""
    schedule = read_of_a_loop_device()
    schedule.requests[-1]["below_end_us"] = 180_000
    path = write(tmp_path / "run", schedule)
    make_report(path)
    shown = " ".join((path / "report.txt").read_text().split())
    assert "the apparatus was the bottleneck: 0.59 s of the path (65.4 %)" in shown
    rows = pq.read_table(path / "critical_path.parquet").to_pylist()
    assert {row["kind"] for row in rows if row["is_below"]} == {"ready", "cpu", "below", "handed"}
