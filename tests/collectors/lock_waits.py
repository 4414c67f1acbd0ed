# SPDX-License-Identifier: BSD-2-Clause
"""Helpers of the lock tests: rows by kind, balance of losses, storms that event tracers record too."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.collectors.lock_events import FLAGS, Event, LockEvents, Waits, between, lock_events, pair
from tests.collectors.recording import (
    SLOWER,
    TICK_NS,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    recording,
    run_inside,
    stolen_ns,
)

# The kernel's filters: begins of waits for locks that put their waiters to sleep, and for the others.
SLEEPING = f"(flags & {FLAGS['MUTEX']} || !(flags & {FLAGS['SPIN']}))"
ASLEEP = f"!(flags & {FLAGS['SPIN']})"  # of those, the ones that went to sleep
SPINNING = f"(flags & {FLAGS['SPIN']} && !(flags & {FLAGS['MUTEX']}))"
LAND_S = 0.05  # a CPU that its hypervisor stopped inside an event writes it meanwhile
MEET_S = 20 * SLOWER  # for so long a storm is started again, until its threads meet at a lock


def kind_number(run: Recording, kind: str) -> int:
    return enum_value(run.out / "lock_wait.rec", "lock_kind", kind)


def rows_of(run: Recording, kind: str) -> npt.NDArray[np.void]:
    table = run.addressed("lock_wait")
    rows: npt.NDArray[np.void] = table[table["kind"] == kind_number(run, kind)]
    return rows


def assert_balanced(run: Recording) -> None:
    """Check that every event is counted, and that every wait is in the table or in the losses."""
    state = run.source("locks")
    lost, notes = dict(state["lost"]), state["notes"]
    missed = lost.get("program already running on this CPU", 0)
    assert (
        notes["contention_begin events"] + missed
        == state["seen"] + notes["mutex waits changing between spin and sleep"]
    )
    assert state["seen"] == state["recorded"] + sum(lost.values()) + notes["open at the end"], state
    table = run.table("lock_wait")
    assert int(table["count"].sum()) == state["recorded"]
    ends = state["recorded"] + notes["open at the start (or begin not seen)"]
    ends += sum(lost[name] for name in ("map full", "map busy", "recorder late"))
    assert notes["contention_end events"] == ends
    others = notes.get("program already running on this CPU", 0)
    assert missed + others == state["bpf"]["recursion_misses"]


def lost_waits(run: Recording) -> int:
    """Return the lost waits of losses.json, for all reasons."""
    return sum(run.source("locks")["lost"].values())


def assert_same(rows: npt.NDArray[np.void], truth: dict[int, Waits], kind: str, lost: int = 0) -> int:
    """Counts exact for each lock, times between those of the tracers around it; returns waits compared.

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
        assert waits.spin_ns[0] <= int(mine["spin_ns"].sum()) <= waits.spin_ns[1], hex(lock)
        assert waits.sleep_ns[0] <= int(mine["sleep_ns"].sum()) <= waits.sleep_ns[1], hex(lock)
    return compared


@contextmanager
def recording_between(folder: Path, *options: str) -> Iterator[tuple[Recording, LockEvents]]:
    """The recorder between two event tracers; after the block the first one's events have both clocks.

    Its both_ns is then the time in which all three recorded.
    """
    with (
        lock_events(folder) as first,
        recording(folder / "out", "--collect", "locks", "--addresses", *options) as run,
        lock_events(folder) as last,
    ):
        start_ns = time.monotonic_ns()
        yield run, first
        first.both_ns = (start_ns, time.monotonic_ns())
        time.sleep(LAND_S)
    first.events = between(first.events, last.events)


def window_of(stream: LockEvents, name: str) -> tuple[int, int]:
    """From the first event of programs of this name until their last, as far as all three recorded.

    The last events of a killed thread may come later on a busy CPU, and cannot be waited for.
    """
    times = [event.t_ns for event in stream.events if event.comm == name] or [0]
    return max(times[0], stream.both_ns[0]), min(times[-1], stream.both_ns[1])


def waits_of(stream: LockEvents, name: str) -> dict[int, Waits]:
    """Return the waits by lock, for locks that programs of this name waited for, in their window only."""
    start_ns, end_ns = window_of(stream, name)
    chosen = {event.lock for event in stream.events if event.comm == name}
    chosen -= {event.lock for event in stream.events if not start_ns <= event.t_ns <= end_ns}
    events = [event for event in stream.events if event.lock in chosen]
    unlike = [event for event in events if not event.until_ns]
    assert not unlike, f"from {start_ns} until {end_ns} the last tracer did not see {unlike[:3]}"
    return pair(events, stream.unseen)


@dataclass(frozen=True)
class Storm:
    """A program that ran under the recorder, between two of the kernel's event tracers."""

    run: Recording
    truth: dict[int, Waits]  # waits_of() it, but for locks that idle tasks wait for
    facts: list[dict[str, Any]]  # the program's output, per run of it
    events: list[Event]  # of all programs; from before the recorder's start until after its end
    stolen_ns: int  # upper bound of the CPU time that the hypervisor gave to other guests


def fight(
    folder: Path,
    group: Path,
    program: Path,
    arguments: Sequence[str | Path],
    enough: int,
    wanted: str = SLEEPING,
) -> list[str]:
    """Run a program in a cgroup until enough of the wanted waits have begun. Returns its outputs.

    On a busy machine or host, threads that run in turns may not meet at a lock: the program is run again.
    """
    outputs: list[str] = []
    with lock_events(folder, f'comm == "{program.name}" && {wanted}') as own:
        end = time.monotonic() + MEET_S
        while own.entries() < enough and time.monotonic() < end:
            child = run_inside(group, [program, *arguments])
            outputs.append(child.communicate(timeout=300)[0])
            assert child.returncode == 0
        met = own.entries()
        assert met >= enough, f"the storm waited {met} times, not {enough}: nothing can be tested"
    return outputs


def storm(
    tmp_path: Path, name: str, arguments: Sequence[str | Path], enough: int = 1, wanted: str = SLEEPING
) -> Storm:
    """Record a program's lock waits in a cgroup, by the recorder and by two event tracers around it."""
    program = compile_program(name, tmp_path)
    stolen = -stolen_ns()
    with cgroup() as group, recording_between(tmp_path, "--cgroup", str(group)) as (run, stream):
        facts = [json.loads(text) for text in fight(tmp_path, group, program, arguments, enough, wanted)]
    stolen += stolen_ns() + TICK_NS * (os.cpu_count() or 1)
    start_ns, end_ns = window_of(stream, name)
    begins = Counter(event.lock for event in stream.events if event.begin)
    inside = sum(
        event.begin and start_ns <= event.t_ns <= end_ns and event.pid not in stream.unseen
        for event in stream.events
    )
    state = run.source("locks")
    missed = state["bpf"]["recursion_misses"]
    # The tracer does not record every wait of an idle task (on 6.18: of CPU 1's, for its run queue's lock);
    # whose wait it was, its stack says if there is one.
    idle = {
        stack["stack_id"] for stack in run.lines("stack") if "cpu_startup_entry" in " ".join(stack["frames"])
    }
    rows = run.addressed("lock_wait")
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
    # The tracers ran longer than the recorder, the storm shorter: each wait of the storm is seen or counted.
    assert inside - missed <= state["notes"]["contention_begin events"] <= begins.total() + beyond
    truth = waits_of(stream, name)
    for lock in of_idle["lock_id"].tolist():
        truth.pop(lock, None)
    return Storm(run, truth, facts, stream.events, stolen)


def until_most_wait(pid: int) -> None:
    """Wait until four threads are in state D (in mmap_storm: waiting for its mmap_lock).

    A single one may get the lock before the signal comes, or sleep for another reason.
    """
    deadline = time.monotonic() + 60
    while True:
        waiting = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # gone meanwhile
                waiting += ") D " in (task / "stat").read_text()
        if waiting >= 4:
            return
        assert time.monotonic() < deadline, "no threads wait: nothing can be tested"
