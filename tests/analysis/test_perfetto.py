# SPDX-License-Identifier: BSD-2-Clause
"""A Perfetto trace of a few known switches: lost ones, time given up, early wake-ups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.export import make_export
from tests.analysis.synthetic import START_NS, Spec, request
from tests.analysis.trace_processor import ask, needs_trace_processor

pytestmark = needs_trace_processor
MS = 1_000_000
STATES = """
    select tid, ts, dur, state from thread_state join thread using (utid) where tid in (101, 102, 103)
    order by tid, ts, thread_state.id
"""


def at(ms: int) -> int:
    return START_NS + ms * MS


def thread(number: int, tid: int) -> dict[str, Any]:
    row = {"thread": number, "tid": tid, "tgid": tid, "comm": f"t{number}", "process": f"t{number}"}
    return row | {"parent_tgid": 1, "role": "workload", "is_kernel_thread": False, "start_ns": at(0)}


def switch(ms: int, prev: int, then: int, state: str = "sleeping", cpu: int = 0) -> dict[str, Any]:
    roles = {
        f"{side}_role": "workload" if number else "idle" for side, number in (("prev", prev), ("next", then))
    }
    return {"t_ns": at(ms), "prev": prev, "next": then, "state": state, "cpu": cpu, **roles}


def found(tmp_path: Path, **tables: Any) -> dict[int, list[tuple[int, int, str]]]:
    """The states of each thread: begin and length in ms, -1 to the end of the trace; and the state."""
    threads = [thread(1, 101), thread(2, 102), thread(3, 103)]
    run = Spec(thread=threads, block=[request(at(50), 8)], **{"wake": [], **tables}).write(tmp_path / "run")
    make_export(run, "perfetto", None)
    states: dict[int, list[tuple[int, int, str]]] = {}
    for tid, at_ns, dur_ns, state in ask(run / "export/perfetto/trace.pftrace", STATES)[0]:
        begin = (at_ns - START_NS) / MS
        states.setdefault(tid, []).append((begin, dur_ns / MS if dur_ns >= 0 else -1, state))
    return states


def test_perfetto_shows_each_state_from_the_first_switch_on(tmp_path: Path) -> None:
    """The thread that leaves first has run since the recording began; a preempted one stays ready."""
    states = found(
        tmp_path,
        switch=[switch(2, 1, 2, "io_wait"), switch(3, 2, 1, "preempted"), switch(5, 1, 2, "ended")],
        wake=[{"t_ns": at(2) + MS // 2, "wakee": 1, "waker": 2, "cpu": 0, "context": "task"}],
    )
    assert states[101] == [(0, 2, "Running"), (2, 0.5, "D"), (2.5, 0.5, "R"), (3, 2, "Running"), (5, -1, "X")]
    assert states[102] == [(2, 1, "Running"), (3, 2, "R+"), (5, -1, "Running")]


def test_perfetto_puts_an_early_wake_up_behind_the_sleepers_switch(tmp_path: Path) -> None:
    states = found(
        tmp_path,
        switch=[switch(2, 1, 0), switch(4, 0, 1), switch(6, 1, 0)],
        wake=[{"t_ns": at(2) - 5000, "wakee": 1, "waker": 2, "cpu": 0, "context": "softirq"}],
    )
    ns = 1 / MS
    assert states[101] == [
        (0, 2, "Running"),
        (2, ns, "S"),
        (2 + ns, 2 - ns, "R"),
        (4, 2, "Running"),
        (6, -1, "S"),
    ]


def test_perfetto_shows_a_lost_switch_as_not_recorded(tmp_path: Path) -> None:
    """Thread 1 comes to the CPU, then thread 2 leaves it: what thread 1 did between is not known."""
    states = found(tmp_path, switch=[switch(2, 0, 1), switch(6, 2, 3), switch(8, 3, 0)])
    assert states[101] == [(2, 0, "Running"), (2, -1, "P")]
    assert states[102] == [(6, 0, "Running"), (6, -1, "S")]
    assert states[103] == [(6, 2, "Running"), (8, -1, "S")]


def test_perfetto_shows_time_given_up_as_not_recorded(tmp_path: Path) -> None:
    """Who leaves the CPU first behind the gap had it since its end; who had it before is left in state P."""
    states = found(
        tmp_path,
        switch=[switch(2, 0, 1), switch(9, 2, 0)],
        sched_window=[{"start_ns": at(4), "end_ns": at(7), "switches": 5, "why": "budget"}],
    )
    assert states[101] == [(2, 2, "Running"), (4, -1, "P")]
    assert states[102] == [(7, 2, "Running"), (9, -1, "S")]
