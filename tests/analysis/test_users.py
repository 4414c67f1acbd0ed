# SPDX-License-Identifier: BSD-2-Clause
"""Of a watched system only programs that use the device are the workload; the path is of the busiest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from analysis.measures.critical_path.intervals import State
from analysis.measures.critical_path.roots import choose_callers
from analysis.rundir.run import open_run
from analysis.tables import thread, thread_time
from analysis.tables.load import Tables, load_tables
from analysis.tables.users import in_calls_ns
from tests.analysis.schedules import Schedule
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, request, run_json
from tests.analysis.thread_tables import FIRST_BIN, MS, thread_row

DRIVER = 900
THREADS: list[dict[str, Any]] = [
    {"thread": 1, "tid": 101, "tgid": 100, "comm": "db", "role": "workload"},
    {"thread": 2, "tid": 102, "tgid": 100, "comm": "db", "role": "workload"},
    {"thread": 3, "tid": 110, "comm": "browser", "role": "workload"},
    {"thread": 4, "tid": 111, "comm": "qemu-nbd", "role": "workload"},
    {"thread": 5, "tid": 13, "comm": "jbd2/loop3-8", "role": "kernel"},
    {"thread": 6, "tid": 910, "parent_tgid": DRIVER, "comm": "python", "role": "workload"},
    {"thread": 7, "tid": 911, "parent_tgid": 910, "comm": "python", "role": "workload"},
]


def loaded(path: Path, calls: dict[int, int], name: str = "watch", **more: Any) -> Tables:
    """Tables of a run in which these threads were in calls on the file system, each so many ms."""
    rows = [
        {"bin_ns": FIRST_BIN, "length_ns": BIN_NS, "ns": BIN_NS, "thread": one["thread"]}
        | {"state": "running", "call_target": "unknown"}
        for one in THREADS
    ]
    rows += [
        {
            "bin_ns": FIRST_BIN + BIN_NS,
            "length_ns": BIN_NS,
            "ns": ms * MS,
            "thread": number,
            "state": "blocked",
            "call": "fsync",
            "call_target": "target",
        }
        for number, ms in calls.items()
    ]
    facts = run_json(10)
    facts["workload"] = {"name": name, "argv": []}
    facts["device"]["kind"] = "watch"
    facts["live"] = {"pid": DRIVER}
    spec = Spec(run=facts, thread_time=rows, thread=[thread_row(row) for row in THREADS], **more)
    return load_tables(open_run(spec.write(path)))


def roles(tables: Tables) -> list[str]:
    """By thread; those of both tables are the same."""
    threads, times = tables.get(thread.TABLE), tables.get(thread_time.TABLE)
    assert threads is not None and times is not None
    of_rows = dict(zip(times.thread.tolist(), times.role.codes.tolist(), strict=True))
    for number, role in zip(threads.thread.tolist(), threads.role, strict=True):
        assert role == "kernel" or times.role.labels[of_rows[number]] == role
    return threads.role


def test_only_programs_that_call_on_it_are_the_workload(tmp_path: Path) -> None:
    found = loaded(tmp_path / "r", {1: 5, 7: 50})
    # with all threads of the process; not what makes the screens of the windows
    assert roles(found) == ["workload", "workload", "other", "disk", "kernel", "other", "other"]
    assert in_calls_ns(found.get(thread_time.TABLE)) == {1: 5 * MS}


def test_senders_of_requests_are_the_workload_where_nobody_calls(tmp_path: Path) -> None:
    block = [request(START_NS + 2 * BIN_NS, 8, submitter="other", tgid=110, pid=110)]
    assert roles(loaded(tmp_path / "r", {}, block=block))[:4] == ["other", "other", "workload", "disk"]


def test_nobody_is_the_workload_of_an_idle_device(tmp_path: Path) -> None:
    assert "workload" not in roles(loaded(tmp_path / "r", {}))


def test_workload_of_a_trace_stays_as_it_was_recorded(tmp_path: Path) -> None:
    assert roles(loaded(tmp_path / "r", {1: 5}, "compilebench")).count("workload") == 6


def chosen(in_calls: dict[int, int]) -> list[int]:
    """Numbers of the chosen threads of four, of which thread 4 runs longest."""
    schedule, t = Schedule(), 0
    for number, length in ((1, 10), (2, 20), (3, 30), (4, 400)):
        schedule.switch(t, 0, number)
        schedule.switch(t := t + length, number, 0)
    intervals = schedule.intervals(1000)
    size = intervals.numbers.size
    none, is_asleep = np.zeros(size, dtype=np.int64), np.asarray(intervals.state == State.ASLEEP)
    roots = choose_callers(intervals, np.arange(size), none, none, is_asleep, (0, 1000), in_calls)
    assert roots.is_one == (roots.thread.size == 1)
    return [int(number) for number in intervals.numbers[roots.thread]]


def test_path_is_of_the_threads_that_were_longest_in_calls() -> None:
    assert chosen({1: 100, 2: 60, 3: 40}) == [1, 2]  # down to half of the longest
    assert chosen({3: 1}) == [3]
    assert chosen({}) == [4]  # without calls by their work
