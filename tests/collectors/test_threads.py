# SPDX-License-Identifier: BSD-2-Clause
"""The collector `threads`: states add up to lifetimes, sleeps have their stacks, small maps lose nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.known_times import run_known
from tests.collectors.loop_disk import loop_disk
from tests.collectors.recording import (
    INSIDE,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    needs_btf,
    recording,
    run_inside,
)

pytestmark = [needs_btf, pytest.mark.root]

MS = 1_000_000
BIRTHS = 8_500  # more than THREAD_SLOTS of bpf/threads/thread_slots.h
# Children whose parent ends: process 1 has to wait for them.
ORPHANS = "i=0; while [ $i -lt 600 ]; do (true &); i=$((i+1)); done"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("known_times", tmp_path_factory.mktemp("programs"))


def state(run: Recording, name: str) -> int:
    return enum_value(run.out / "thread_time.rec", "thread_state", name)


def rows_of(run: Recording, tid: int) -> npt.NDArray[np.void]:
    """Rows of the thread with this tid; the last one, if the number was used again."""
    number = [line["thread"] for line in run.lines("thread") if line["tid"] == tid][-1]
    rows = run.table("thread_time")
    own: npt.NDArray[np.void] = rows[rows["thread"] == number]
    return own


def test_states_add_up_to_each_threads_lifetime(program: Path, tmp_path: Path) -> None:
    """Of all threads on the machine, to 0.1 %. Those alive at the end have theirs until one moment."""
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group)) as run,
    ):
        known = run_known(program, group, "hogs", 150)
    rows, threads = run.table("thread_time"), run.lines("thread")
    own = {line["tid"] for line in threads if line["role"] == "workload"}
    assert {thread.tid for thread in known.threads.values()} <= own
    assert len({line["thread"] for line in threads}) == len(threads)
    until_ns = []
    for line in threads:
        summed_ns = int(rows["ns"][rows["thread"] == line["thread"]].sum())
        if line["end_ns"] is None:
            until_ns.append(line["start_ns"] + summed_ns)
        else:
            lived_ns = line["end_ns"] - line["start_ns"]
            assert summed_ns == pytest.approx(lived_ns, rel=0.001), line
    assert run.stopped_ns <= max(until_ns) <= run.stopped_ns + 1000 * MS
    assert max(until_ns) - min(until_ns) <= 1 * MS * (10 if INSIDE else 1)
    # No CPU has two at once: one whose way off a CPU is not seen (process 1's, here) does not stay there.
    ran_ns = int(rows["ns"][rows["state"] == state(run, "running")].sum())
    lasted_ns = max(until_ns) - min(line["start_ns"] for line in threads)
    # Threads that wait for a CPU at the start are taken to run, until they are seen first.
    assert ran_ns <= (1.01 * lasted_ns + 60 * MS) * (os.cpu_count() or 1)
    source = run.source("threads")
    assert {reason: count for reason, count in source["lost"].items() if count} == {}
    assert source["seen"] == source["recorded"] > 0


def test_a_row_is_within_its_bins(program: Path, tmp_path: Path) -> None:
    """No more time than the bin's, and no two states of a thread at once."""
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group)) as run,
    ):
        known = run_known(program, group, "sleep", 400)
    rows = run.table("thread_time")
    assert (rows["ns"] <= rows["length_ns"]).all()
    for thread in known.threads.values():
        own = rows_of(run, thread.tid)
        for begin_ns in np.unique(own["bin_ns"]):
            here = own[own["bin_ns"] == begin_ns]
            assert here["ns"].sum() <= here["length_ns"].max()


def test_a_sleep_has_its_length_and_its_stack(program: Path, tmp_path: Path) -> None:
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group)) as run,
    ):
        known = run_known(program, group, "sleep", 400)
    (main,) = known.threads.values()
    rows = rows_of(run, main.tid)
    stacks = {line["stack_id"]: line["frames"] for line in run.lines("stack")}
    slept = rows[(rows["state"] == state(run, "sleeping")) & (rows["stack_id"] >= 0)]
    by_nanosleep = np.array([any("nanosleep" in frame for frame in stacks[i]) for i in slept["stack_id"]])
    slept_ns = int(slept["ns"][by_nanosleep].sum())
    asked_ns = sum(piece.ns for piece in known.pieces_of(main.name, "sleep"))
    assert slept["count"][by_nanosleep].sum() == 4
    assert 399 * MS <= slept_ns <= asked_ns
    assert slept["max_ns"][by_nanosleep].max() >= 99 * MS


def test_a_thread_that_sleeps_all_along_has_a_few_rows(tmp_path: Path) -> None:
    """Whole bins that one sleep fills are one row; its state is from /proc."""
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        time.sleep(0.1)
        with recording(tmp_path / "out", "--collect", "threads", "--bin-ms", "50") as run:
            time.sleep(0.6)
    finally:
        sleeper.kill()
        sleeper.wait()
    rows = rows_of(run, sleeper.pid)
    assert set(rows["state"]) == {state(run, "sleeping")}
    assert set(rows["stack_id"]) == {-1}
    assert rows["ns"].sum() > 500 * MS
    # First bin, bins until the cut at the begin, bins after it, last bin. A slow recorder is late for a cut,
    # and makes up to four more (CUT_TRIES in collectors/recorder/time_bins.c).
    assert len(rows) <= (8 if INSIDE else 4), rows[["bin_ns", "length_ns", "ns"]]


def test_each_thread_of_many_has_a_slot(tmp_path: Path) -> None:
    """Numbers that come round meet the threads that live all along, which had the first ones."""
    program = compile_program("births", tmp_path)
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group)) as run,
    ):
        assert run_inside(group, [program, str(BIRTHS)]).wait() == 0
    notes = run.source("threads")["notes"]
    assert notes.get("new threads without a slot", 0) == 0
    born = sum(line["comm"] == "births" for line in run.lines("thread"))
    assert born == BIRTHS + 1


def test_a_thread_that_lives_on_has_its_own_names(tmp_path: Path) -> None:
    """Not those that it was born with; and with any character."""
    code = 'import time; open("/proc/self/comm", "w").write("a\\n-b"); time.sleep(1000)'
    with cgroup() as group, recording(tmp_path / "out", "--collect", "threads") as run:
        child = run_inside(group, [sys.executable, "-c", code])
        while Path(f"/proc/{child.pid}/comm").read_text() != "a\n-b\n":
            time.sleep(0.01)
        run.stop()
        child.kill()
        child.wait()
    [line] = [line for line in run.lines("thread") if line["tid"] == child.pid]
    assert (line["end_ns"], line["comm"], line["process"]) == (None, "a\n-b", "a\n-b")


def test_nothing_is_lost_where_the_maps_are_small(program: Path, tmp_path: Path) -> None:
    """A bin's map of one entry: sums take the way through the ring."""
    small = {"SEEKMETER_THREAD_ENTRIES": "1"}
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group), env=small) as run,
    ):
        known = run_known(program, group, "pingpong", 500)
    source = run.source("threads")
    assert {reason: count for reason, count in source["lost"].items() if count} == {}
    assert source["seen"] == source["recorded"]
    for thread in known.threads.values():
        line = next(line for line in run.lines("thread") if line["tid"] == thread.tid)
        assert rows_of(run, thread.tid)["ns"].sum() == pytest.approx(
            line["end_ns"] - line["start_ns"], rel=0.001
        )


def test_who_ran_while_a_thread_waited(program: Path, tmp_path: Path) -> None:
    """Two hogs on one CPU: until one has had its time, the other one waits while it runs."""
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group)) as run,
    ):
        known = run_known(program, group, "hogs", 300)
    workload = enum_value(run.out / "thread_time.rec", "thread_role", "workload")
    waited_ns = waited_for_workload_ns = 0
    ran_ns = []
    for thread in known.threads.values():
        rows = rows_of(run, thread.tid)
        waits = rows[rows["state"] == state(run, "runnable")]
        waited_ns += int(waits["ns"].sum())
        waited_for_workload_ns += int(waits["ns"][waits["by"] == workload].sum())
        ran_ns.append(int(rows["ns"][rows["state"] == state(run, "running")].sum()))
    assert 0.8 * min(ran_ns) < waited_for_workload_ns < 1.05 * sum(ran_ns)
    assert waited_for_workload_ns <= waited_ns


def test_a_kworker_waits_for_a_cpu_for_the_work_it_then_runs(tmp_path: Path) -> None:
    """A loop device's worker is idle before each write. Waits for a CPU have no other work than its runs.

    A kworker that is made meanwhile waits for its first runs without a work. So does one that was woken for a
    work which another kworker takes before it runs: seldom, but one such wait can last as long as all others.
    """
    with (
        loop_disk(tmp_path / "disk", 64 << 20) as disk,
        recording(tmp_path / "out", "--collect", "threads") as run,
    ):
        dd = ("dd", "if=/dev/zero", f"of={disk.path}", "bs=64k", "count=600", "oflag=direct", "status=none")
        subprocess.run(dd, check=True)
    rows = run.table("thread_time")
    workers = [line for line in run.lines("thread") if line["comm"].startswith("kworker/")]
    waits = rows[rows["state"] == state(run, "runnable")]
    waits = waits[np.isin(waits["thread"], [line["thread"] for line in workers])]
    of_disk = waits["work_name"] == disk.name.encode()
    assert waits["count"][of_disk].sum() > 300
    old = [line["thread"] for line in workers if line["start_ns"] < run.ready["monotonic_ns"]]
    waits = waits[np.isin(waits["thread"], old)]
    assert waits["count"][waits["work_id"] == 0].sum() < 0.05 * waits["count"].sum()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_who_ran_is_known_of_a_thread_that_moves(program: Path, tmp_path: Path) -> None:
    """A hog waits on a CPU that another one has to itself, and is sent on to a CPU that others use."""
    taken, shared = sorted(os.sched_getaffinity(0))[:2]
    stay_ns, rounds = 20 * MS, 8
    alone = ["chrt", "--fifo", "1", "taskset", "-c", str(taken)]
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group)) as run,
    ):
        other = subprocess.Popen(["taskset", "-c", str(shared), program, "hog", "9000"], text=True)
        hogs = [run_inside(group, [*words, program, "hog", "9000"]) for words in (alone, [])]
        tids = [Path(f"/proc/{hog.pid}/task") for hog in hogs]
        while any(len(list(threads.iterdir())) < 2 for threads in tids):
            time.sleep(0.05)  # the thread that computes is the process's second
        tid = max(int(task.name) for task in tids[1].iterdir())
        waited_ns = 0
        for _ in range(rounds):
            begin_ns = time.monotonic_ns()
            os.sched_setaffinity(tid, {taken})
            time.sleep(stay_ns / 1e9)
            waited_ns += time.monotonic_ns() - begin_ns
            os.sched_setaffinity(tid, {shared})
            time.sleep(0.01)
        for process in (*hogs, other):
            process.kill()
            process.communicate()
    rows = rows_of(run, tid)
    waits = rows[rows["state"] == state(run, "runnable")]
    by = {
        name: enum_value(run.out / "thread_time.rec", "thread_role", name) for name in ("workload", "unknown")
    }
    assert waits["ns"][waits["by"] == by["workload"]].sum() > 0.9 * waited_ns
    assert waits["ns"][waits["by"] == by["unknown"]].sum() < 0.1 * waited_ns


def test_who_ran_is_known_of_a_thread_that_gets_a_cpu_unseen(program: Path, tmp_path: Path) -> None:
    """Two hogs on each CPU, which process 1 takes from them now and then. Its way off a CPU is not seen."""
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "threads", "--cgroup", str(group)) as run,
    ):
        pins = [["taskset", "-c", str(cpu)] for cpu in sorted(os.sched_getaffinity(0))]
        hogs = [run_inside(group, [*pin, program, "hog", "9000"]) for pin in pins * 2]
        subprocess.run(["/bin/sh", "-c", ORPHANS], check=True)
        time.sleep(1)
        for hog in hogs:
            hog.kill()
            hog.communicate()
    if not run.source("threads")["notes"]["begins of runs not seen"]:
        pytest.skip("all switches were seen: the kernel runs BPF programs over process 1, too")
    own = [line["thread"] for line in run.lines("thread") if line["role"] == "workload"]
    rows = run.table("thread_time")
    waits = rows[np.isin(rows["thread"], own) & (rows["state"] == state(run, "runnable"))]
    unknown = enum_value(run.out / "thread_time.rec", "thread_role", "unknown")
    assert waits["ns"].sum() > 1000 * MS
    assert waits["ns"][waits["by"] == unknown].sum() < 1 * MS
