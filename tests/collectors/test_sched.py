# SPDX-License-Identifier: BSD-2-Clause
"""The sched source against threads that know how often they were switched, and why they were woken."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import (
    INSIDE,
    SLOWER,
    Recording,
    cgroup,
    compile_program,
    needs_btf,
    read_table,
    recording,
    run_inside,
    same_pids,
    until_stopped,
)
from tests.collectors.sessions import wait_for
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

ROUNDS, SLEEPS = 3000, 50
READS = 1000


@dataclass(frozen=True)
class Named:
    """Rows of a table, enums by name."""

    rows: npt.NDArray[np.void]
    names: dict[str, npt.NDArray[np.str_]]

    def where(self, **values: Any) -> npt.NDArray[np.void]:
        """Return the rows with these values, an enum's by its name."""
        mask = np.ones(len(self.rows), dtype=bool)
        for column, value in values.items():
            mask &= (self.names[column] if column in self.names else self.rows[column]) == value
        return self.rows[mask]

    def causes(self) -> Counter[tuple[str, str, int]]:
        """Count the workload's wakes by context, cause and sureness."""
        of_workload = self.names["wakee_role"] == "workload"
        columns = (self.names["context"], self.names["cause"], self.rows["sure"])
        return Counter(zip(*(column[of_workload].tolist() for column in columns), strict=True))


def named(run: Recording, table: str) -> Named:
    """Return a table's rows, in order of time."""
    header, rows = read_table(run.out / f"{table}.rec")
    rows = rows[np.argsort(rows["t_ns"], kind="stable")]
    columns = {field["name"]: field["enum"] for field in header["fields"] if field.get("enum")}
    names = {
        column: np.array([header["enums"][enum][str(value)] for value in rows[column].tolist()], dtype=str)
        for column, enum in columns.items()
    }
    return Named(rows, names)


def run_in_workload(folder: Path, command: Sequence[str | Path]) -> str:
    """Run a command as the workload; return what it prints."""
    with run_inside(folder, command, stderr=subprocess.PIPE) as process:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    return str(output)


def threads_of_workload(switches: Named) -> list[int]:
    """Return the numbers of the workload's threads."""
    return sorted(set(switches.where(prev_role="workload")["prev"].tolist()) - {0})


def sleeps_without_a_wake(switches: Named, wakes: Named, thread: int) -> tuple[int, int]:
    """Count a thread's sleeps, and those that end without a recorded wake since the thread had last come.

    A wake may come before the switch: the thread has announced its sleep, and has not yet left the CPU.
    """
    left = switches.where(prev=thread)
    states = switches.names["state"][switches.rows["prev"] == thread]
    came = switches.where(next=thread)["t_ns"]
    woken = wakes.where(wakee=thread)["t_ns"]
    sleeps = lacking = 0
    for left_ns, state in zip(left["t_ns"].tolist(), states.tolist(), strict=True):
        later = came[came > left_ns]
        if state in ("preempted", "ended") or not len(later):
            continue
        before = came[came <= left_ns]
        begin = before[-1] if len(before) else 0
        sleeps += 1
        lacking += not ((woken >= begin) & (woken <= later[0])).any()
    return sleeps, lacking


def test_switches_are_those_that_the_kernel_counted(tmp_path: Path) -> None:
    """Each switch of a thread has a row, in the state that the kernel counts it by, and each sleep a wake."""
    program = compile_program("known_switches", tmp_path)
    with (
        cgroup() as folder,
        recording(tmp_path / "out", "--collect", "sched", "--cgroup", str(folder)) as run,
    ):
        known = json.loads(run_in_workload(folder, [program, str(ROUNDS), str(SLEEPS)]))

    switches, wakes = named(run, "switch"), named(run, "wake")
    source = run.source("sched")
    assert not any(source["lost"].values()), source
    assert source["recorded"] == len(switches.rows) + len(wakes.rows)

    # The program's first thread came from outside the workload; the three that count themselves began in it.
    begun = set(wakes.where(is_new=1, wakee_role="workload")["wakee"].tolist())
    assert len(begun) == 3
    counts = []
    for thread in begun:
        states = switches.names["state"][switches.rows["prev"] == thread]
        counts.append(((states != "preempted").sum(), (states == "preempted").sum()))
    # Between its count and its end a thread may be preempted, and wait for a lock of its process.
    ends = zip(sorted(counts), sorted(one["voluntary"] + 1 for one in known), strict=True)
    assert all(0 <= voluntary - expected <= 1 for (voluntary, _), expected in ends), f"{counts}, {known}"
    extra = sum(involuntary for _, involuntary in counts) - sum(one["involuntary"] for one in known)
    assert 0 <= extra <= 3

    sleeps = lacking = 0
    for thread in begun:
        here, without = sleeps_without_a_wake(switches, wakes, thread)
        sleeps, lacking = sleeps + here, lacking + without
    assert sleeps >= ROUNDS
    assert lacking <= sleeps / 1000

    # A player is woken by the other one; who sleeps by the clock, by a timer's interrupt.
    timers = wakes.where(wakee_role="workload", cause="timer")
    # Some kernels run no program in an interrupt over a thread of process 1: docs/COSTS.md.
    assert 0.8 * SLEEPS <= len(timers) <= SLEEPS + 5, wakes.causes()
    assert len(set(timers["wakee"].tolist()) & begun) == 1
    assert {str(one) for one in wakes.names["context"][wakes.names["cause"] == "timer"]} <= {
        "hardirq",
        "softirq",
    }
    players = begun - set(timers["wakee"].tolist())
    by_player = [row for row in wakes.where(context="task", is_new=0) if row["wakee"] in players]
    assert sum(row["waker"] in players for row in by_player) >= len(by_player) - 5


def test_threads_and_stacks_are_those_of_the_thread_table(tmp_path: Path) -> None:
    """A thread has one number in all tables, and a sleep the stack that the collector threads took."""
    program = compile_program("known_switches", tmp_path)
    with (
        cgroup() as folder,
        recording(tmp_path / "out", "--collect", "threads,sched", "--cgroup", str(folder)) as run,
    ):
        known = json.loads(run_in_workload(folder, [program, "300", "300"]))

    switches = named(run, "switch")
    stacks = {line["stack_id"]: line["frames"] for line in run.lines("stack")}
    threads = {line["thread"]: line for line in run.lines("thread")}
    by_tid = {line["tid"]: number for number, line in threads.items() if line["role"] == "workload"}
    assert same_pids(sorted(by_tid)[-3:], sorted(one["tid"] for one in known))
    counts = [
        (switches.rows["prev"] == number).sum() - (switches.where(prev=number, state="preempted").size)
        for number in sorted(by_tid.values())[-3:]
    ]
    assert sorted(counts) == sorted(one["voluntary"] + 1 for one in known)
    for number in sorted(by_tid.values())[-3:]:
        slept = switches.where(prev=number, state="sleeping")["stack_id"].tolist()
        names = [" ".join(stacks[one]) for one in slept if one >= 0]
        assert len(names) >= 0.99 * len(slept)
        assert sum("pipe_read" in name or "nanosleep" in name for name in names) >= 0.95 * len(names)
    assert set(switches.where(state="preempted")["stack_id"].tolist()) <= {-1}


def test_wakes_by_completions_name_the_request(tmp_path: Path) -> None:
    """A direct reader sleeps once for each read: its wakes name the requests of the block table."""
    with (
        loop_disk(tmp_path / "disk", 64 * MIB) as disk,
        cgroup() as folder,
        recording(
            tmp_path / "out", "--collect", "block,sched", "--disk", disk.name, "--cgroup", str(folder)
        ) as run,
    ):
        reader = [
            "dd",
            f"if={disk.path}",
            "of=/dev/null",
            "bs=4k",
            f"count={READS}",
            "iflag=direct",
            "status=none",
        ]
        run_in_workload(folder, reader)

    wakes = named(run, "wake")
    blocks = {
        (row["dev"], row["sector"]): (row["issue_ns"], row["complete_ns"])
        for row in run.table("block")
        if row["complete_ns"]
    }
    by_request = wakes.where(wakee_role="workload", cause="request", sure=1)
    # On slow CPUs many reads are over before the reader has gone to sleep.
    assert len(by_request) >= (READS / 4 if INSIDE else 0.99 * READS), wakes.causes()
    late = 0
    for row in by_request:
        issue_ns, complete_ns = blocks.get((row["dev"], row["sector"]), (0, 0))
        late += not issue_ns < row["t_ns"] or not complete_ns <= row["t_ns"] + 1_000_000
    assert late <= len(by_request) / 100
    # Nothing but requests woke the reader in interrupts while it read. A guest's program comes over 9p, also
    # what it needs after its first read, and at its end.
    interrupts = (
        np.isin(wakes.names["context"], ["softirq", "hardirq"])
        & (wakes.names["wakee_role"] == "workload")
        & (wakes.rows["t_ns"] >= by_request["t_ns"][1])
        & (wakes.rows["t_ns"] <= by_request["t_ns"][-1])
    )
    assert len(by_request) >= 0.99 * int(interrupts.sum()), wakes.causes()

    functions = {line["id"]: line["name"] for line in run.lines("function")}
    works = {functions[number] for number in wakes.where(cause="work")["work_id"].tolist()}
    assert works & {"loop_workfn", "loop_rootcg_workfn"}


def test_a_storm_gives_up_whole_windows(tmp_path: Path) -> None:
    """Over the budget nothing is recorded on any CPU until the storm is over, and all of it is counted."""
    program = compile_program("known_switches", tmp_path)
    budget = {"SEEKMETER_SCHED_BUDGET": "20000"}
    options = ("--collect", "sched", "--cgroup")
    with cgroup() as folder, recording(tmp_path / "out", *options, str(folder), env=budget) as run:
        begin_ns = time.monotonic_ns()
        while time.monotonic_ns() - begin_ns < 1_500_000_000:
            run_in_workload(folder, [program, "20000", "1"])
        end_ns = time.monotonic_ns()
        # A gap that goes on has a line each second; one may, while other tests switch as often.
        wait_for(lambda: bool(run.lines("sched_window")))
        wait_for(lambda: time.monotonic_ns() > run.lines("sched_window")[-1]["end_ns"] + 1_300_000_000)
        run_in_workload(folder, [program, "10", "200"])

    source = run.source("sched")
    windows = run.lines("sched_window")
    switches, wakes = named(run, "switch"), named(run, "wake")
    assert len(windows) >= 2
    reasons = {window["why"] for window in windows}
    # A recorder that gets no CPU in the storm finds a ring full before it finds the budget exceeded.
    assert "over the budget" in reasons and reasons <= {"over the budget", "ring full"}
    assert source["notes"]["windows given up"] == len(windows)
    assert all(first["end_ns"] <= second["start_ns"] for first, second in pairwise(windows))
    skipped = sum(window["switches"] for window in windows)
    assert skipped > 20_000 // SLOWER
    assert sum(source["lost"].get(f"given up: {why}", 0) for why in reasons) >= skipped
    times = np.concatenate([switches.rows["t_ns"], wakes.rows["t_ns"]])
    for window in windows:
        assert not ((times >= window["start_ns"]) & (times < window["end_ns"])).any()
    given_up_ns = sum(
        max(0, min(window["end_ns"], end_ns) - max(window["start_ns"], begin_ns)) for window in windows
    )
    assert given_up_ns > (0.2 if INSIDE else 0.8) * (end_ns - begin_ns)
    assert windows[-1]["end_ns"] < run.stopped_ns - 50_000_000
    assert len(wakes.where(wakee_role="workload", cause="timer")) >= 10


def test_a_full_ring_gives_up_the_rest_of_its_second(tmp_path: Path) -> None:
    """A recorder that gets no CPU for a while loses that while whole, on all CPUs."""
    program = compile_program("known_switches", tmp_path)
    budget = {"SEEKMETER_SCHED_BUDGET": "100000000"}
    options = ("--collect", "sched", "--cgroup")
    with cgroup() as folder, recording(tmp_path / "out", *options, str(folder), env=budget) as run:
        run.process.send_signal(signal.SIGSTOP)
        until_stopped(run.process.pid)
        run_in_workload(folder, [program, "60000", "1"])
        run.process.send_signal(signal.SIGCONT)
        time.sleep(1.3)
        run_in_workload(folder, [program, "10", "200"])

    windows = run.lines("sched_window")
    assert windows[0]["why"] == "ring full"
    assert len(windows) <= 2
    times = np.concatenate([named(run, name).rows["t_ns"] for name in ("switch", "wake")])
    for window in windows:
        assert not ((times >= window["start_ns"]) & (times < window["end_ns"])).any()
    lost = run.source("sched")["lost"]
    assert lost["given up: ring full"] >= windows[0]["switches"] > 0
    assert lost["ring full"] > 0  # the event for which there was no room, on each CPU
    assert "given up: over the budget" not in lost
    assert len(named(run, "wake").where(wakee_role="workload", cause="timer")) >= 10
