# SPDX-License-Identifier: BSD-2-Clause
"""The critical path of a run: its sums, whose they are, which threads are its roots, and the section."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from analysis.measures.common.timeline import Timeline, make_timeline
from analysis.measures.common.window import QUANTUM_NS, Window, find_window
from analysis.measures.critical_path import pieces
from analysis.measures.critical_path import results as path_results
from analysis.measures.critical_path.ends import ends, text_of
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import NoPath, PathResults, measure_path
from analysis.measures.critical_path.roots import Roots, stand_for
from analysis.measures.critical_path.sums import WHO_NOT_SEEN
from analysis.measures.results import measure
from analysis.render import text
from analysis.report import make_report
from analysis.rundir import tested
from analysis.rundir.run import Run, open_run
from analysis.sections.document import make_document
from analysis.tables.load import Tables, load_tables
from tests.analysis.schedules import Schedule
from tests.analysis.synthetic import START_NS, Spec, request, run_json

MS = 1_000_000
BEGIN = START_NS + 50 * MS  # of the workload, which ends 50 ms before the recording
LENGTH_MS = 900
MORE = ("class", "ino", "below_start_us", "below_end_us")  # columns of a request that a test may set
APP, CHILD, JBD2, LOOP, RECORDER, WRITER = 1, 2, 3, 4, 5, 6
THREADS: dict[int, tuple[str, str]] = {
    APP: ("app", "workload"),
    CHILD: ("child", "workload"),
    JBD2: ("jbd2/loop3-8", "kernel"),
    LOOP: ("loop3", "kernel"),
    RECORDER: ("recorder", "recorder"),
    WRITER: ("writer", "workload"),
}
STACKS: list[dict[str, Any]] = [
    {"stack_id": 1, "frames": ["schedule+0x1", "jbd2_log_wait_commit+0x9", "ext4_sync_file+0x2"]},
    {"stack_id": 3, "frames": ["schedule+0x1", "do_nanosleep+0x9", "hrtimer_nanosleep+0x2"]},
    {"stack_id": 2, "frames": ["schedule+0x1", "do_wait+0x9", "kernel_wait4+0x2"]},
]


def write(folder: Path, schedule: Schedule, **more: Any) -> Path:
    """A run with a schedule in ms since the workload began."""

    def at(t: int) -> int:
        return BEGIN + t * MS

    role = {number: its_role for number, (_, its_role) in THREADS.items()} | {0: "idle"}
    spec = Spec(
        run=run_json(LENGTH_MS / 1000 + 0.1),
        switch=[
            {
                **row,
                "t_ns": at(row["t_ns"]),
                "prev_role": role[row["prev"]],
                "next_role": role[row["next"]],
            }
            for row in schedule.switches
        ],
        wake=[{**row, "t_ns": at(row["t_ns"])} for row in schedule.wakes],
        thread=[
            {
                "thread": number,
                "tid": 1000 + number,
                "tgid": 1000 + number,
                "comm": comm,
                "role": its_role,
                "start_ns": START_NS,
                "end_ns": None,
            }
            for number, (comm, its_role) in THREADS.items()
            if any(number in (row["prev"], row["next"]) for row in schedule.switches)
        ],
        block=[
            request(
                at(row["issue"]),
                row["sector"],
                queue_ns=at(row["queue"]),
                complete_ns=at(row["complete"]),
                pid=1000 + row["pid"],
                comm=THREADS[row["pid"]][0].encode(),
            )
            | {"class": "journal"}
            | {name: row[name] for name in MORE if name in row}
            for row in schedule.requests
        ],
        stack=STACKS,
        **more,
    )
    spec.run["filesystem"]["others_of_kind"] = 0
    spec.run["collect"] = ["block", "sched"]
    return spec.write(folder)


def window_of(run: Run, tables: Tables) -> tuple[Window, Timeline]:
    window = find_window(run, tables)
    start, end, zero = window.start_ns, window.end_ns, window.work_start_ns
    return window, make_timeline(start, end, zero, QUANTUM_NS, QUANTUM_NS)


def measured(path: Path) -> PathResults:
    run = open_run(path)
    tables = load_tables(run)
    found = measure_path(tables, *window_of(run, tables), tested.tested_filesystem(run))
    assert isinstance(found, PathResults), found
    assert sum(share.ns for share in found.shares) == found.total_ns
    return found


def fsync_of_a_child() -> Schedule:
    """The application waits for its child, which waits for a commit and its request.

    The recorder has the child's CPU for 30 ms.
    """
    schedule = Schedule()
    schedule.switch(0, 0, APP, cpu=0)
    schedule.switch(-20, JBD2, 0, cpu=1)
    schedule.wake(50, CHILD, APP, is_new=1)
    schedule.switch(60, APP, CHILD, cpu=0, stack_id=2)
    schedule.wake(100, JBD2, CHILD)
    schedule.switch(110, 0, JBD2, cpu=1)
    schedule.switch(120, CHILD, 0, cpu=0, state="blocked", stack_id=1)
    schedule.switch(200, JBD2, LOOP, cpu=1, state="io_wait")
    schedule.request(150, 210, 500, sector=4096, submitter=JBD2)
    schedule.switch(210, LOOP, 0, cpu=1)
    schedule.completion(500, JBD2, sector=4096)
    schedule.switch(500, 0, JBD2, cpu=1)
    schedule.wake(600, CHILD, JBD2)
    schedule.switch(599, 0, RECORDER, cpu=0)
    schedule.switch(610, JBD2, 0, cpu=1)
    schedule.switch(630, RECORDER, CHILD, cpu=0)
    schedule.wake(700, APP, CHILD)
    schedule.switch(701, CHILD, APP, state="ended", cpu=0)
    schedule.switch(900, APP, 0, state="ended", cpu=0)
    return schedule


def test_shares_name_what_each_time_was(tmp_path: Path) -> None:
    found = measured(write(tmp_path / "run", fsync_of_a_child()))
    assert (found.is_one, found.name, found.total_ns) == (True, "app", LENGTH_MS * MS)
    sums = {(end.group, end.text): round(end.ns / MS) for end in ends(found.shares)}
    assert sums == {
        ("own CPU", "running: the workload"): 60 + 60 + 70 + 199,
        ("fs CPU", "running: the file system"): 80 + 100,
        ("queue", "queued: write journal"): 10,
        ("device", "at the device: write journal"): 290,
        ("apparatus", "apparatus: the recorder"): 30,
        ("ready", "ready: the workload ran"): 1,
    }
    # of its own will it waited for its child, whose wait counts in its stead
    assert [(waits.waited.cause, waits.count, waits.ns) for waits in found.own_waits] == [
        ("commit", 1, 480 * MS)
    ]
    (one,) = found.requests
    assert (one.label, one.comm, one.count) == ("write journal", "jbd2/loop3-8", 1)
    assert (one.device_ns, one.queue_ns) == (290 * MS, 10 * MS)
    coverage = found.coverage
    assert (coverage.completions, coverage.completions_named) == (1, 1)
    assert (coverage.unknown_ns, coverage.unrecorded_ns, coverage.weak_ns) == (0, 0, 0)


def test_sleep_that_an_event_cuts_is_one_sleep(tmp_path: Path) -> None:
    """The child's sleep of 480 ms has a checkpoint of its own within."""
    checkpoint = {
        "event_id": 7,
        "kind": "jbd2_checkpoint",
        "why": "space",
        "tid": 1000 + CHILD,
        "start_ns": BEGIN + 200 * MS,
        "end_ns": BEGIN + 400 * MS,
    }
    plain = measured(write(tmp_path / "plain", fsync_of_a_child()))
    found = measured(write(tmp_path / "run", fsync_of_a_child(), event=[checkpoint]))
    assert [(waits.count, waits.ns, waits.max_ns) for waits in found.own_waits] == [(1, 480 * MS, 480 * MS)]
    assert found.coverage.sleeps == plain.coverage.sleeps
    (through,) = found.events
    assert (through.kind, through.count, through.ns) == ("jbd2_checkpoint", 1, 200 * MS)
    assert through.is_own
    below = measured(write(tmp_path / "below", fsync_of_a_child(), event=[{**checkpoint, "dev": 254 << 20}]))
    (through,) = below.events
    assert (through.is_own, through.ns) == (False, 200 * MS)


def test_waits_of_two_threads_for_one_are_two(tmp_path: Path) -> None:
    """Both writers sleep until the commit's request completes: 700 and 600 ms."""
    schedule = Schedule()
    schedule.switch(0, 0, CHILD, cpu=0)
    schedule.switch(0, 0, WRITER, cpu=1)
    schedule.request(100, 100, 800, sector=8, submitter=JBD2)
    for begin, writer, cpu in ((100, CHILD, 0), (200, WRITER, 1)):
        schedule.switch(begin, writer, 0, state="io_wait", cpu=cpu, stack_id=1)
        schedule.completion(800, writer, sector=8)
        schedule.switch(801, 0, writer, cpu=cpu)
    found = measured(write(tmp_path / "run", schedule))
    assert found.roots == 2
    assert [(waits.waited.cause, waits.count, waits.ns, waits.max_ns) for waits in found.own_waits] == [
        ("commit", 2, 1300 * MS, 700 * MS)
    ]


@pytest.mark.usefixtures("words_only")
def test_section_fits_and_names_the_path(tmp_path: Path) -> None:
    path = write(tmp_path / "run", fsync_of_a_child())
    run = open_run(path)
    tables = load_tables(run)
    document = make_document(run, tables, measure(run, tables))
    (section,) = (one for one in document.sections if one.key == "critical_path")
    lines = text.section_lines(section)
    assert all(len(line) <= 80 for line in lines)
    shown = "\n".join(lines)
    for words in (
        "1 thread, app, 0.90 s",
        "at the device: write journal",
        text_of("commit"),
        "known: 100.0 %",
    ):
        assert words in shown


def test_files_have_their_names_and_phases(tmp_path: Path) -> None:
    """One file is named, one took the inode number of an earlier one, and a journal has none."""
    schedule = Schedule()
    schedule.switch(0, 0, APP)
    for begin, ino, class_ in ((100, 12, "data"), (300, 13, "data"), (500, 0, "journal")):
        schedule.switch(begin, APP, 0, state="io_wait")
        schedule.request(begin, begin + 20, begin + 90, sector=begin, submitter=APP)
        schedule.requests[-1] |= {"ino": ino, "class": class_}
        schedule.completion(begin + 90, APP, sector=begin)
        schedule.switch(begin + 90, 0, APP)
    path = write(
        tmp_path / "run",
        schedule,
        paths=[
            {"dev": "7:3", "ino": 12, "path": "data/one"},
            {"dev": "7:3", "ino": 13, "path": "data/later", "born_ns": BEGIN + 800 * MS},
        ],
    )
    found = {(share.ino, share.path, share.request): share for share in measured(path).files}
    assert set(found) == {(12, "data/one", "write data"), (13, "", "write data"), (0, "", "write journal")}
    for share in found.values():
        assert (share.count, share.queue_ns, share.device_ns) == (1, 20 * MS, 70 * MS)
    make_report(path)
    shown = (path / "report.txt").read_text()
    assert "data/one" in shown and "inode 13, gone" in shown
    rows = [row for row in pq.read_table(path / "critical_path.parquet").to_pylist() if row["request"]]
    pieces = {(row["kind"], row["file"], row["ino"]) for row in rows}
    assert pieces == {
        (kind, *file) for kind in ("queue", "device") for file in (("data/one", 12), ("", 13), ("", None))
    }


def two_writers() -> Schedule:
    """Both are at work all the time: one on a CPU, one waits for the device; a third waits for them."""
    schedule = Schedule()
    schedule.switch(0, 0, APP, cpu=0)
    schedule.switch(1, APP, 0, cpu=0, stack_id=2)
    schedule.switch(0, 0, CHILD, cpu=1)
    schedule.switch(900, CHILD, 0, state="preempted", cpu=1)
    schedule.switch(2, 0, WRITER, cpu=0)
    schedule.switch(100, WRITER, 0, state="io_wait", cpu=0)
    schedule.request(100, 100, 800, sector=8, submitter=WRITER)
    schedule.completion(800, WRITER, sector=8)
    schedule.switch(800, 0, WRITER, cpu=0)
    return schedule


def test_several_threads_at_work_are_all_roots(tmp_path: Path) -> None:
    found = measured(write(tmp_path / "run", two_writers()))
    assert not found.is_one and found.roots == 2 and found.total_ns == 2 * LENGTH_MS * MS
    assert found.at_work == pytest.approx((900 + 898 + 1) / 900, abs=0.01)
    sums = {end.text: round(end.ns / MS) for end in ends(found.shares)}
    assert sums["at the device: write journal"] == 700
    assert sums["running: the workload"] == 900 + 98 + 100


def test_thread_that_looks_now_and_then_is_no_root(tmp_path: Path) -> None:
    """It sleeps by a timer of its own again and again, while its child is at work."""
    schedule = Schedule()
    schedule.switch(0, 0, CHILD, cpu=1)
    for t in range(0, 900, 100):
        schedule.switch(t, 0, APP, cpu=0)
        schedule.switch(t + 1, APP, 0, cpu=0, stack_id=3)
        schedule.wake(t + 100, APP, 0, context="hardirq", cause="timer")
    found = measured(write(tmp_path / "run", schedule))
    assert (found.is_one, found.name) == (True, "child")
    assert {end.text for end in ends(found.shares)} == {"running: the workload"}


def test_time_given_up_is_stated(tmp_path: Path) -> None:
    windows = [{"start_ns": BEGIN + 300 * MS, "end_ns": BEGIN + 400 * MS, "switches": 9, "why": "budget"}]
    schedule = Schedule()
    schedule.switch(0, 0, APP)
    found = measured(write(tmp_path / "run", schedule, sched_window=windows))
    assert (found.coverage.unrecorded_ns, found.coverage.windows_given_up) == (100 * MS, 1)


def test_sleep_over_given_up_time_is_a_weak_link(tmp_path: Path) -> None:
    """The application waits for its child from 60 to 700 ms, and is not switched from 300 to 500 ms."""
    windows = [
        {"start_ns": BEGIN + 300 * MS, "end_ns": BEGIN + 310 * MS, "switches": 9, "why": "budget"},
        {"start_ns": BEGIN + 400 * MS, "end_ns": BEGIN + 410 * MS, "switches": 9, "why": "budget"},
    ]
    found = measured(write(tmp_path / "run", fsync_of_a_child(), sched_window=windows))
    sums = {end.text: round(end.ns / MS) for end in ends(found.shares)}
    assert sums["at the device: write journal"] == 290 - 20
    assert found.coverage.unrecorded_ns == 20 * MS and found.coverage.unknown_ns == 0
    assert found.coverage.weak_ns == (400 - 60 - 10) * MS


@pytest.mark.parametrize(("lives_ms", "stands"), [((50, 40), False), ((300, 200), True), ((), False)])
def test_threads_of_the_start_do_not_stand_for_a_workload_that_pauses(
    lives_ms: tuple[int, ...], stands: bool
) -> None:
    def roots(lives: tuple[int, ...]) -> Roots:
        end = np.array(lives, dtype=np.int64)
        return Roots(np.arange(end.size, dtype=np.int32), np.zeros(end.size, dtype=np.int64), end, False, 0.1)

    assert stand_for(roots(lives_ms), roots((1000,))) == stands


def test_who_had_the_cpu_may_not_have_been_seen(tmp_path: Path) -> None:
    """Woken at 20 ms, the application comes to a CPU at 50 ms that nobody was seen on before."""
    schedule = Schedule()
    schedule.switch(0, 0, APP, cpu=0)
    schedule.switch(10, APP, 0, cpu=0, state="blocked", stack_id=1)
    schedule.wake(20, APP, 0, context="hardirq", cause="timer")
    schedule.switch(50, 0, APP, cpu=1)
    found = measured(write(tmp_path / "run", schedule))
    (ready,) = (share for share in found.shares if share.kind == Kind.READY)
    assert (ready.name, ready.role, ready.ns) == (WHO_NOT_SEEN, "other", 30 * MS)


def test_series_sums_to_the_path(tmp_path: Path) -> None:
    path = write(tmp_path / "run", fsync_of_a_child())
    found = measured(path)
    run = open_run(path)
    _, timeline = window_of(run, load_tables(run))
    seconds = [float((series * timeline.lengths_s).sum()) for series in found.over_time.values()]
    assert sum(seconds) == pytest.approx(LENGTH_MS / 1000)
    device = found.over_time["device"] * timeline.lengths_s
    assert device[2:6] == pytest.approx(
        [0.04, 0.1, 0.1, 0.05]
    )  # it has 210 to 500 ms, bins begin 50 ms early


@pytest.mark.usefixtures("words_only")
def test_shares_by_bin_sum_to_the_shares(tmp_path: Path) -> None:
    path = measured(write(tmp_path / "r", two_writers()))
    assert path.rows is not None
    begin = min(int(some.begin.min()) for some in path.rows.pieces)
    end = max(int(some.end.max()) for some in path.rows.pieces)
    edges = np.linspace(begin, end, 8).astype(np.int64)
    shares, ns = path.rows.sums.by_bin(path.rows.pieces, edges[:-1], edges[1:])
    assert ns.shape == (len(shares), 7)
    assert ns.sum() == path.total_ns
    assert (ns.sum(axis=0) <= path.roots * np.diff(edges)).all()
    of_kind = {kind: sum(share.ns for share in path.shares if share.kind == kind) for kind in Kind}
    assert {kind: sum(share.ns for share in shares if share.kind == kind) for kind in Kind} == of_kind
    half, _ = path.rows.sums.by_bin(path.rows.pieces, edges[:1], edges[1:2])
    assert sum(share.ns for share in half) == ns[:, 0].sum()


def test_pieces_are_written_as_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "run", fsync_of_a_child())
    make_report(path)
    rows = pq.read_table(path / "critical_path.parquet").to_pylist()
    edges = [(row["start_ns"], row["end_ns"]) for row in rows]
    assert edges[0][0] == BEGIN and edges[-1][1] == BEGIN + LENGTH_MS * MS
    assert all(end == begin for (_, end), (begin, _) in pairwise(edges))
    (device,) = (row for row in rows if row["kind"] == "device")
    assert (device["request"], device["sector"], device["dev"]) == ("write journal", 4096, 7 << 20 | 3)
    assert (device["own_cause"], device["own_place"]) == ("commit", "jbd2_log_wait_commit")
    commit = [row for row in rows if row["comm"] == "jbd2/loop3-8"]
    assert {(row["kind"], row["role"], row["thread"], row["depth"]) for row in commit} == {
        ("cpu", "filesystem", JBD2, 2)
    }


def test_phases_cut_pieces_exactly(tmp_path: Path) -> None:
    phases = [
        {"name": "make", "start_ns": BEGIN, "end_ns": BEGIN + 30 * MS},
        {"name": "sync", "start_ns": BEGIN + 30 * MS, "end_ns": BEGIN + 650 * MS},
    ]
    found = measured(write(tmp_path / "run", fsync_of_a_child(), phases=phases))
    by_phase = {
        name: sum(share.ns for share in found.shares if share.phase == name) // MS
        for name in ("make", "sync", "")
    }
    assert by_phase == {"make": 30, "sync": 620, "": 250}


def test_path_is_given_up_beyond_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = fsync_of_a_child()
    run = open_run(write(tmp_path / "run", schedule))
    tables = load_tables(run)
    rows = len(schedule.switches) + len(schedule.wakes)
    window, filesystem = window_of(run, tables), tested.tested_filesystem(run)
    for module, name, words in (
        (path_results, "ROWS_MOST", f"{rows} switches and wake-ups; the path is found for up to 5"),
        (pieces, "PIECES_MOST", "more than 5 pieces"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 5)
            assert measure_path(tables, *window, filesystem) == NoPath(words)


def test_run_without_switches_has_no_section(tmp_path: Path) -> None:
    run = open_run(Spec().write(tmp_path / "run"))
    tables = load_tables(run)
    document = make_document(run, tables, measure(run, tables))
    assert not [one for one in document.sections if one.key == "critical_path"]
