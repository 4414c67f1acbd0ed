# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of locks share: rows by kind, the accounts, a storm beside the kernel's event tracer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.lock_events import Event, Waits, lock_events, pair
from tests.collectors.recording import (
    SLOWER,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    recording,
    run_inside,
)

# How much later than the first tracer the second one reads the clock.
TRACERS_NS = 4_000 * SLOWER
# How long a busy machine may stop a CPU, in all, between one tracer's look at the clock and the other's.
HICCUPS_NS = 5_000_000 * SLOWER


def kind_number(run: Recording, kind: str) -> int:
    return enum_value(run.out / "lock_wait.rec", "lock_kind", kind)


def rows_of(run: Recording, kind: str) -> npt.NDArray[np.void]:
    table = run.table("lock_wait")
    rows: npt.NDArray[np.void] = table[table["kind"] == kind_number(run, kind)]
    return rows


def assert_balanced(run: Recording) -> None:
    """Every event seen is accounted for, and every wait is in the table or in the losses."""
    state = run.source("locks")
    lost, notes = dict(state["lost"]), state["notes"]
    missed = lost.pop("program already running on this CPU", 0)
    assert (
        notes["contention_begin events"]
        == state["seen"] + notes["mutex waits changing between spin and sleep"]
    )
    assert state["seen"] == state["recorded"] + sum(lost.values()) + notes["open at the end"], state
    table = run.table("lock_wait")
    assert int(table["count"].sum()) == state["recorded"]
    ends = state["recorded"] + notes["open at the start (or begin not seen)"]
    ends += sum(lost[name] for name in ("map full", "map busy", "recorder late"))
    assert notes["contention_end events"] == ends
    assert missed == state["bpf"]["recursion_misses"]


def lost_waits(run: Recording) -> int:
    """Waits the recorder says it lost, for whichever reason."""
    return sum(run.source("locks")["lost"].values())


def assert_same(rows: npt.NDArray[np.void], truth: dict[int, Waits], kind: str, lost: int = 0) -> int:
    """Counts exact for each lock, times within what two tracers differ by; returns waits compared.

    lost: waits the recorder says it lost, of whichever lock: only so many may be missing, with their time.
    """
    compared = 0
    for lock, waits in truth.items():
        if waits.kinds != {kind} or not waits.count:
            continue
        mine = rows[rows["lock_id"] == lock]
        counted = int(mine["count"].sum())
        assert waits.count - lost - waits.maybe_unseen <= counted <= waits.count, (hex(lock), lost)
        compared += counted
        if counted < waits.count:
            continue
        assert int(mine["failed"].sum()) == waits.failed, hex(lock)
        # The tracers run one after the other at each event.
        slack = TRACERS_NS * waits.phases + 0.02 * (waits.spin_ns + waits.sleep_ns) + HICCUPS_NS
        assert int(mine["spin_ns"].sum()) == pytest.approx(waits.spin_ns, rel=0, abs=slack), hex(lock)
        assert int(mine["sleep_ns"].sum()) == pytest.approx(waits.sleep_ns, rel=0, abs=slack), hex(lock)
    return compared


@dataclass(frozen=True)
class Storm:
    """A program that ran under the recorder and the kernel's event tracer at once."""

    run: Recording
    truth: dict[int, Waits]  # on the locks that it waited for; others may have waited for them too
    output: str
    events: list[Event]  # everybody's; from before the recorder was there until after it went
    outside: set[int]  # locks with events before the program's first or after its last; idle tasks' locks


def storm(tmp_path: Path, name: str, words: Sequence[str | Path]) -> Storm:
    """Record a program in a cgroup, the event tracer around the recorder."""
    program = compile_program(name, tmp_path)
    with (
        lock_events(tmp_path) as stream,
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "locks", "--cgroup", str(group)) as run,
    ):
        child = run_inside(group, [program, *words])
        output = child.communicate(timeout=300)[0]
        assert child.returncode == 0
    mine = {event.lock for event in stream.events if event.comm == name}
    times = [event.t_ns for event in stream.events if event.comm == name] or [0]
    begins = Counter(event.lock for event in stream.events if event.begin)
    inside = sum(
        event.begin and times[0] <= event.t_ns <= times[-1] and event.pid not in stream.unseen
        for event in stream.events
    )
    state = run.source("locks")
    missed = state["bpf"]["recursion_misses"]
    # The tracer does not record every wait of an idle task (on 6.18: of CPU 1's, for its run queue's lock);
    # whose wait it was, its stack says if there is one.
    idle = {
        stack["stack_id"] for stack in run.lines("stack") if "cpu_startup_entry" in " ".join(stack["frames"])
    }
    rows = run.table("lock_wait")
    of_idle = rows[np.isin(rows["stack_id"], list(idle))]
    maybe_idle = rows[np.isin(rows["stack_id"], list(idle)) | (rows["stack_id"] < 0)]
    unrecorded = 0
    for lock in {int(lock) for lock in rows["lock_id"]}:
        ours = int(rows["count"][rows["lock_id"] == lock].sum())
        by_idle = int(maybe_idle["count"][maybe_idle["lock_id"] == lock].sum())
        assert ours - by_idle <= begins[lock], hex(lock)
        unrecorded += max(0, ours - begins[lock])
    # Waits that ended unseen, or not yet, are in no row.
    beyond = unrecorded + sum(state["lost"].values()) + state["notes"]["open at the end"]
    # The tracer was on for longer than the recorder, the storm shorter: all in between is seen or counted.
    assert inside - missed <= state["notes"]["contention_begin events"] <= begins.total() + beyond
    truth = {lock: waits for lock, waits in pair(stream.events, stream.unseen).items() if lock in mine}
    outside = {event.lock for event in stream.events if not times[0] <= event.t_ns <= times[-1]}
    return Storm(run, truth, output, stream.events, outside | {int(lock) for lock in of_idle["lock_id"]})
