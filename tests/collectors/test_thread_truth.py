# SPDX-License-Identifier: BSD-2-Clause
"""Thread time beside what the threads know themselves (programs/known_times.c) and what the kernel counts."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from analysis import units
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.collectors.known_run import KnownRun
from tests.collectors.known_times import KnownThread
from tests.collectors.recording import SLOWER, enum_value, needs_btf
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

ASLEEP = ("sleeping", "blocked", "io_wait")
STATES = ("running", "runnable", *ASLEEP)
WAITS_FOR_IO = (
    *((mode, "main") for mode in ("fsync", "flush", "fastread", "busyread", "read", "fault")),
    *((mode, "main") for mode in ("reclaim", "write")),
    ("chainread", "second"),
)
# The issue's own tolerances.
OF_WALL, OF_COUNTS = 0.001, 0.005
# Between the kernel's look at its clock and ours: in each interval, and in all. Emulated CPUs are slow from
# the choice of a thread to the switch to it.
MOMENT_NS, MOMENTS_NS = 1_000 * SLOWER, 100_000 * SLOWER
SWITCH_NS = 20_000 * SLOWER if SLOWER > 1 else MOMENT_NS
BUSY_HOST_NS = 50_000  # between the scheduler's clock and a switch, now and then


def moments_ns(known_run: KnownRun, thread: KnownThread, state: str, most_ns: int) -> int:
    """Return what may lie between the kernel's look at its clock and ours. most_ns: in one interval."""
    count = int(known_run.rows(thread, state)["count"].sum())
    # Where a switch was not seen, the borders of the run are guessed.
    unseen_ns = known_run.sleeps.unseen_ns(known_run.number(thread))
    host_ns = BUSY_HOST_NS * min(count, 20)
    return most_ns * count + host_ns + MOMENTS_NS + known_run.stolen_ns + unseen_ns


def test_states_sum_to_the_thread_s_wall_time(known_run: KnownRun) -> None:
    for thread in known_run.threads():
        line = known_run.line(thread)
        assert (line["comm"], line["role"]) == (thread.name, "workload")
        wall_ns = line["end_ns"] - line["start_ns"]
        assert known_run.ns(thread) == pytest.approx(wall_ns, rel=OF_WALL)
    assert sum(known_run.run.source("threads")["lost"].values()) == 0


def test_no_bin_has_more_than_its_length(known_run: KnownRun) -> None:
    for thread in known_run.threads():
        rows = known_run.rows(thread)
        for start_ns in np.unique(rows["bin_ns"]):
            in_bin = rows[rows["bin_ns"] == start_ns]
            assert in_bin["ns"].sum() <= in_bin["length_ns"].max()


def test_run_and_run_delay_equal_schedstat(known_run: KnownRun) -> None:
    """Within 0.5 %, and what the thread did before and after its own look at schedstat."""
    for thread in known_run.threads():
        counts_ns = {"running": thread.run_ns, "runnable": thread.run_delay_ns}
        for states, most_ns in (
            (("running", "runnable"), MOMENT_NS),
            (("running",), SWITCH_NS),
            (("runnable",), SWITCH_NS),
        ):
            count_ns = sum(counts_ns[state] for state in states)
            slack_ns = OF_COUNTS * count_ns + moments_ns(known_run, thread, states[0], most_ns)
            more_ns = known_run.ns(thread, *states) - count_ns
            assert -slack_ns <= more_ns <= slack_ns + known_run.unseen_ns(thread), (thread, states)


def test_the_kernel_s_counts_are_in_the_thread_table(known_run: KnownRun) -> None:
    for thread in known_run.threads():
        line, unseen_ns = known_run.line(thread), known_run.unseen_ns(thread)
        for key, count_ns in (
            ("run_ns", thread.run_ns),
            ("run_delay_ns", thread.run_delay_ns),
            ("blkio_delay_ns", thread.blkio_ns),
        ):
            assert 0 <= line[key] - count_ns <= unseen_ns, (thread.name, key)
        slept = int(known_run.rows(thread, *ASLEEP)["count"].sum())
        seen = line["switches"] + known_run.unseen().total()
        assert seen >= thread.sleeps + thread.preemptions - 1
        assert slept <= thread.sleeps + 4  # and those of its end


def test_io_wait_equals_the_blkio_delay_of_taskstats(known_run: KnownRun) -> None:
    for mode, name in WAITS_FOR_IO:
        if mode not in known_run.known:
            continue
        thread = known_run.known[mode].threads[name]
        assert thread.blkio_ns > 0, "nothing was waited for: nothing was tested"
        slack_ns = OF_COUNTS * thread.blkio_ns + moments_ns(known_run, thread, "io_wait", MOMENT_NS)
        more_ns = known_run.ns(thread, "io_wait") - thread.blkio_ns
        assert -slack_ns <= more_ns <= slack_ns + known_run.unseen_ns(thread), thread
    for mode in ("sleep", "hog", "pingpong"):
        assert known_run.ns(known_run.known[mode].threads["main"], "io_wait") == 0


def test_io_wait_of_fair_threads_equals_the_pressure(known_run: KnownRun) -> None:
    """Where the kernel's own count is none to compare with: sleepers that stay in their queue for a while."""
    if not known_run.alone:
        pytest.skip("no cgroup's pressure, or no throttled reads: needs CONFIG_PSI, and cgroups for I/O")
    stays_queued = b"\0sched_delayed\0" in Path("/sys/kernel/btf/vmlinux").read_bytes()
    for known, waited_ns in known_run.alone:
        thread = known.threads["main"]
        assert waited_ns > 0, "nothing was waited for: nothing was tested"
        slack_ns = OF_COUNTS * waited_ns + moments_ns(known_run, thread, "io_wait", SWITCH_NS)
        assert abs(known_run.ns(thread, "io_wait") - waited_ns) <= slack_ns, thread
        assert known_run.line(thread)["is_blkio_sure"] == (not stays_queued)
    if "read" in known_run.known:
        assert known_run.line(known_run.known["read"].threads["main"])["is_blkio_sure"]


def test_known_sleeps_are_in_their_state(known_run: KnownRun) -> None:
    """Each at least as long as asked for, and at most as long as the thread's own clock has it."""
    for mode, name, what in (
        ("sleep", "main", ("sleep",)),
        ("futex", "second", ("sleep",)),
        ("futex", "main", ("pipe", "futex")),
        ("child", "main", ("child",)),
    ):
        known = known_run.known[mode]
        thread = known.threads[name]
        pieces = [piece for one in what for piece in known.pieces_of(name, one)]
        slept_ns = sum(piece.ns for piece in pieces)
        own_ns = known_run.ns(thread, "running", "runnable")
        assert slept_ns - own_ns <= known_run.ns(thread, "sleeping") <= slept_ns + known_run.unseen_ns(thread)


def test_two_hogs_of_one_cpu_wait_for_each_other(known_run: KnownRun) -> None:
    """What each waited for a CPU while the other ran: the one that ends last, for all that the other ran."""
    path = known_run.run.out / "thread_time.rec"
    by_workload = enum_value(path, "thread_role", "workload")
    first, last = sorted(known_run.known["hogs"].threads.values(), key=lambda thread: thread.end_ns)
    waited_ns = {}
    for thread in (first, last):
        rows = known_run.rows(thread, "runnable")
        waited_ns[thread.name] = int(rows["ns"][rows["by"] == by_workload].sum())
    alone_ns = max(0, last.begin_ns - first.begin_ns)  # at its begin
    most_ns = known_run.ns(first, "running")
    # A run ends for the kernel as the next thread is chosen; on emulated CPUs that is long before the switch.
    # Where a switch from process 1 was not seen, nobody knows when it was.
    more_ns = {
        thread.name: (moments_ns(known_run, thread, "runnable", SWITCH_NS) if SLOWER > 1 else 0)
        + known_run.process_1.ran_ns
        for thread in (first, last)
    }
    # The process's first thread starts them.
    assert 0.98 * most_ns - alone_ns - known_run.process_1.ran_ns <= waited_ns[last.name]
    assert waited_ns[last.name] <= 1.02 * most_ns + more_ns[last.name]
    assert waited_ns[first.name] <= 1.02 * known_run.ns(last, "running") + more_ns[first.name]


def check_in_report(folder: Path) -> str:
    """The sentence of a report that compares the run's own threads with the kernel's counts."""
    run = open_run(folder)
    tables = load_tables(run)
    document = make_document(run, tables, measure(run, tables))
    [section] = [section for section in document.sections if section.key == "threads"]
    [note] = [note for note in section.notes if note.startswith("check of ")]
    return note


def differences(known_run: KnownRun, folder: Path) -> dict[str, str]:
    """The same comparisons, by hand, in percent: of threads that began and lived 0.1 s in the recording."""
    lines = [json.loads(line) for line in (folder / "raw/recorder/thread.jsonl").read_text().splitlines()]
    begin_ns, end_ns = known_run.run.ready["monotonic_ns"], known_run.run.stopped_ns
    states = {
        name: enum_value(known_run.run.out / "thread_time.rec", "thread_state", name) for name in STATES
    }
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    impossible = 0
    for line in lines:
        lived_ns = (line["end_ns"] or end_ns) - line["start_ns"]
        mine = known_run.times[known_run.times["thread"] == line["thread"]]
        if not (line["thread"] and line["start_ns"] >= begin_ns and (line["end_ns"] or 0) <= end_ns):
            continue
        if mine.size == 0:  # it came and went without a moment that was recorded: there is nothing to compare
            continue
        is_sure = line["is_blkio_sure"]
        impossible += is_sure and (line["blkio_delay_ns"] or 0) > lived_ns
        if lived_ns < 100_000_000:
            continue
        for what, state, count_ns in (
            ("threads", None, 1),
            ("lifetime", None, lived_ns),
            ("run time", "running", line["run_ns"]),
            ("run delay", "runnable", line["run_delay_ns"]),
            ("I/O delay", "io_wait", line["blkio_delay_ns"]),
        ):
            if count_ns is None or (what == "I/O delay" and not is_sure):
                continue
            is_state = np.ones(mine.size, dtype=bool) if state is None else mine["state"] == states[state]
            ours[what] += abs(int(mine["ns"][is_state].sum()) - count_ns)
            theirs[what] += count_ns
    found = {what: f"differs by {units.percent(ours[what] / theirs[what])} %" for what in theirs}
    if impossible:
        found["I/O delay"] = f"is wrong in the kernel ({impossible} beyond the lifetime)"
    return found | {
        "threads": f"{theirs['threads']:,}",
        "lifetime": units.percent(ours["lifetime"] / theirs["lifetime"]),
    }


def test_each_report_compares_its_own_threads_with_the_kernel(known_run: KnownRun, tmp_path: Path) -> None:
    """As computed by hand, also where the kernel had counted something else."""
    shutil.copytree(known_run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("tables"))
    path = tmp_path / "run/raw/recorder/thread.jsonl"
    more, less = (thread.tid for thread in known_run.known["hogs"].threads.values())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["tid"] in (more, less):
            line["end_ns"] -= 20_000_000
            line["run_ns"] += (1 if line["tid"] == more else -1) * line["run_ns"] // 2
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for folder in (known_run.folder, tmp_path / "run"):
        by_hand = differences(known_run, folder)
        assert check_in_report(folder) == (
            f"check of {by_hand['threads']} threads that lived wholly inside the recording: the states sum to"
            f" the lifetime within {by_hand['lifetime']} %; against the kernel's own counts: run time"
            f" {by_hand['run time']}, run delay {by_hand['run delay']}, I/O delay {by_hand['I/O delay']}"
        )
    assert differences(known_run, known_run.folder)["lifetime"].strip("<") in ("0.0", "0.1")
