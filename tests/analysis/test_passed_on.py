# SPDX-License-Identifier: BSD-2-Clause
"""Requests whose end a worker passes on: told by two wakes, or by the woken thread's own requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from analysis.measures.origin.passed_on import passed_on
from analysis.tables.thread import Threads
from tests.analysis.schedules import Schedule

READER, OTHER_READER, WORKER, FLUSHER = 1, 2, 3, 4
FUNCTIONS = {1: "simple_end_io_work", 2: "wb_workfn"}
THREADS = cast(
    Threads,
    SimpleNamespace(
        thread=np.array([WORKER, READER, FLUSHER, OTHER_READER]),
        tid=np.array([WORKER, READER, FLUSHER, OTHER_READER]),
        role=["kernel", "workload", "kernel", "workload"],
    ),
)


def found(schedule: Schedule) -> list[int]:
    """Sectors of the requests that were passed on."""
    block = schedule.block_table
    rows = passed_on(schedule.wake_table, block, FUNCTIONS, THREADS)
    return sorted(block.sector[rows].tolist())


def passes_on(schedule: Schedule, t: int, wakee: int, work_id: int = 1) -> None:
    schedule.wake(t, wakee, WORKER, cause="work", work_id=work_id)


@pytest.mark.parametrize(("work_id", "expected"), [(1, [8]), (2, [])])
def test_worker_in_an_ending_function_names_its_request(work_id: int, expected: list[int]) -> None:
    """The flusher's request wakes the worker, and that a thread which waits for the page."""
    schedule = Schedule()
    schedule.request(10, 11, 50, sector=8, submitter=FLUSHER)
    schedule.request(10, 11, 55, sector=16, submitter=FLUSHER)
    schedule.completion(51, WORKER, sector=8)
    passes_on(schedule, 60, READER, work_id)
    assert found(schedule) == expected


def test_busy_worker_ends_the_last_own_request_of_whom_it_wakes() -> None:
    """It is woken once, for the first of two readers."""
    schedule = Schedule()
    schedule.request(10, 11, 50, sector=8, submitter=READER)
    schedule.request(5, 6, 20, sector=16, submitter=OTHER_READER)
    schedule.request(12, 13, 52, sector=24, submitter=OTHER_READER)
    schedule.completion(51, WORKER, sector=8)
    passes_on(schedule, 30, OTHER_READER)
    passes_on(schedule, 60, READER)
    passes_on(schedule, 61, OTHER_READER)
    assert found(schedule) == [8, 16, 24]


def test_request_before_the_last_wake_does_not_count() -> None:
    schedule = Schedule()
    schedule.request(10, 11, 40, sector=8, submitter=READER)
    schedule.completion(41, READER, sector=8)
    passes_on(schedule, 45, READER)
    assert found(schedule) == []
