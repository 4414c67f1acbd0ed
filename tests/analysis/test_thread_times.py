# SPDX-License-Identifier: BSD-2-Clause
"""Times of threads against a naive reference: conversion, sums by role and cause, phases, checks, series."""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.causes.classify import classify
from analysis.causes.rules import rules
from analysis.frames import load
from analysis.measures.common.timeline import make_timeline
from analysis.measures.results import Results, measure
from analysis.measures.threads.over_time import sums_over_time
from analysis.measures.threads.parts import ON_CPU
from analysis.measures.threads.results import ThreadResults
from analysis.rundir.run import Run, open_run
from analysis.tables import thread_time
from analysis.tables.load import TABLES, Tables, load_tables
from tests.analysis.synthetic import BIN_NS, START_NS, THREAD_TIME, Spec, rec_bytes
from tests.analysis.thread_tables import (
    FIRST_BIN,
    MS,
    ROLES,
    STACKS,
    THREADS,
    WORK_ROLES,
    facts_of_run,
    random_spec,
    thread_row,
)


def loaded(path: Path) -> tuple[Run, Tables]:
    run = open_run(path)
    return run, load_tables(run)


def results_of(path: Path) -> Results:
    run, tables = loaded(path)
    return measure(run, tables)


def threads_of(path: Path) -> ThreadResults:
    threads = results_of(path).threads
    assert threads is not None
    return threads


def naive_kind(row: dict[str, Any]) -> str:
    state = row["state"]
    if state == "runnable":
        return f"ready:{row.get('by', 'unknown')}"
    if state == "running":
        return "running"
    if state == "other":
        return "stopped"
    stack_id = row.get("stack_id", -1)
    frames = tuple(STACKS[stack_id]) if 0 <= stack_id < len(STACKS) else ()
    if row["thread"] in (3, 4) and state == "sleeping" and not frames:
        return "idle"  # a kernel thread, asleep since before the recording
    return classify(frames, state, row.get("lock_kind", "none")).cause


def naive_role(row: dict[str, Any]) -> str:
    if row["thread"] == 4:
        return WORK_ROLES[row.get("work_name", b"").decode()]
    return ROLES[row["thread"]]


@pytest.mark.parametrize("seed", [1, 2])
def test_times_by_role_and_cause_equal_a_naive_sum(tmp_path: Path, seed: int) -> None:
    spec = random_spec(seed)
    found = threads_of(spec.write(tmp_path / "r"))
    by_hand: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    longest: dict[tuple[str, str], int] = defaultdict(int)
    assert spec.thread_time is not None
    for row in spec.thread_time:
        key = naive_role(row), naive_kind(row)
        by_hand[key] += row["ns"]
        counts[key] += row["count"]
        longest[key] = max(longest[key], row["max_ns"])
    on_cpu = ("user", "kernel", "irq", "spin", "running")
    for role in {role for role, _ in by_hand}:
        ran = [part for part in found.of(role) if part.kind in on_cpu]
        assert sum(part.ns for part in ran) == by_hand[role, "running"]
        assert sum(part.count for part in ran) == counts[role, "running"]
        others = {part.kind: (part.ns, part.count, part.max_ns) for part in found.of(role) if part not in ran}
        assert others == {
            kind: (ns, counts[role, kind], longest[role, kind])
            for (of, kind), ns in by_hand.items()
            if of == role and kind != "running" and ns
        }
    assert found.cpu_s == pytest.approx(sum(by_hand[key] for key in by_hand if key[1] == "running") / 1e9)
    assert found.capacity_s == pytest.approx(20.0)
    assert found.workload_threads == 2
    for part in found.parts:
        of_part = [one.ns for one in found.places if (one.role, one.kind) == (part.role, part.kind)]
        assert sum(of_part) == part.ns
    rows = {(row.role, row.name): row for row in found.rows}
    assert rows["disk", "loop3"].cpu_ns == by_hand["disk", "running"]
    assert rows["workload", "compilebench"].threads == 2
    unknown = sum(
        by_hand[role, kind] for role in ("workload", "filesystem") for kind in ("unknown", "no_stack")
    )
    assert sum(one.ns for one in found.unknown) == unknown
    share = found.unknown_share("workload", "filesystem")
    assert share == pytest.approx(unknown / found.blocked_ns("workload", "filesystem"))


@pytest.mark.parametrize("seed", [3, 4])
def test_phases_sum_to_the_run_and_equal_a_naive_sum(tmp_path: Path, seed: int) -> None:
    spec = random_spec(seed)
    found = threads_of(spec.write(tmp_path / "r"))
    by_hand: dict[str, Counter[str]] = defaultdict(Counter)
    assert spec.thread_time is not None
    for row in spec.thread_time:
        middle = row["bin_ns"] + row["length_ns"] // 2
        name = next((p["name"] for p in spec.phases if p["from_ns"] <= middle < p["until_ns"]), "(no phase)")
        if naive_role(row) == "workload":
            kind = naive_kind(row)
            by_hand[name]["cpu" if kind == "running" else kind] += row["ns"]
    assert [phase.name for phase in found.phases] == ["write", "read", "(no phase)"]
    for phase in found.phases:
        sums: Counter[str] = Counter()
        for part in phase.parts:
            sums["cpu" if part.is_on_cpu else part.kind] += part.ns
        assert sums == +by_hand[phase.name]
    assert sum(phase.ns for phase in found.phases) == sum(part.ns for part in found.of("workload"))


def test_running_time_is_split_by_samples_without_loss(tmp_path: Path) -> None:
    own = {"samples": 10, "samples_user": 5, "samples_softirq": 2, "samples_spin": 2}
    times = [
        {"bin_ns": FIRST_BIN, "ns": 50 * MS + 3, "count": 7, "max_ns": 9 * MS, "state": "running", **own},
        # without samples: as the thread's others in this phase
        {"bin_ns": FIRST_BIN + BIN_NS, "ns": 10 * MS, "count": 1, "state": "running"},
        # a thread without any sample
        {"bin_ns": FIRST_BIN, "ns": 4 * MS, "thread": 2, "state": "running"},
        # samples whose time is in another row
        {"bin_ns": FIRST_BIN, "ns": 0, "thread": 2, "state": "running", "work_id": 5, "count": 3},
    ]
    path = Spec(thread_time=times, thread=[thread_row(row) for row in THREADS], run=facts_of_run()).write(
        tmp_path / "r"
    )
    _, tables = loaded(path)
    found = tables.get(thread_time.TABLE)
    assert found is not None
    sums: Counter[tuple[int, str]] = Counter()
    samples: Counter[str] = Counter()
    for i in range(found.ns.size):
        state = found.state.labels[found.state.codes[i]]
        sums[int(found.thread[i]), state] += int(found.ns[i])
        samples[state] += int(found.samples[i])
    assert sums[2, "running"] == 4 * MS
    assert sum(ns for (number, _), ns in sums.items() if number == 1) == 60 * MS + 3
    shares = {"user": 0.5, "kernel": 0.1, "irq": 0.2, "spin": 0.2}
    for state, share in shares.items():
        assert sums[1, state] == pytest.approx((60 * MS + 3) * share, abs=4)
        assert samples[state] == 10 * share
    assert int(found.count.sum()) == 11 and int(found.max_ns.max()) == 9 * MS


def test_rows_over_several_bins_are_cut_to_the_recorded_time(tmp_path: Path) -> None:
    asleep = {"state": "sleeping", "stack_id": 4, "count": 1}
    times = [
        {"bin_ns": START_NS - 3 * BIN_NS, "length_ns": 10 * BIN_NS, "ns": 10 * BIN_NS, **asleep},
        {"bin_ns": START_NS + 90 * BIN_NS, "length_ns": 30 * BIN_NS, "ns": 30 * BIN_NS, **asleep},
        {"bin_ns": START_NS - 5 * BIN_NS, "length_ns": 4 * BIN_NS, "ns": 4 * BIN_NS, **asleep},
    ]
    path = Spec(
        thread_time=times,
        thread=[thread_row(THREADS[0])],
        stack=[{"stack_id": 4, "frames": STACKS[4]}],
        run=facts_of_run(),
    ).write(tmp_path / "r")
    _, tables = loaded(path)
    found = tables.get(thread_time.TABLE)
    assert found is not None and found.ns.tolist() == [7 * BIN_NS, 10 * BIN_NS]
    assert found.bin_ns.tolist() == [START_NS, START_NS + 90 * BIN_NS]
    assert found.bin_length_ns.tolist() == found.ns.tolist()
    assert tables.left_out["thread_time"].before == 1
    assert found.cause.labels[found.cause.codes[0]] == "child"


def test_sums_over_time_equal_a_naive_division() -> None:
    draw = random.Random(6)
    timeline = make_timeline(START_NS + 123, START_NS + 97 * BIN_NS + 5, START_NS, 3 * BIN_NS, BIN_NS)
    start = np.array(
        [START_NS + draw.randrange(-5, 99) * BIN_NS + draw.randrange(BIN_NS) for _ in range(400)]
    )
    length = np.array([draw.choice([1, BIN_NS, 7 * BIN_NS, 200 * BIN_NS]) for _ in range(400)])
    ns = length.astype(np.float64)
    expected = np.zeros(timeline.bins)
    edges = timeline.edges_ns.tolist()
    edges[0], edges[-1] = -(2**60), 2**60
    for begin, size in zip(start.tolist(), length.tolist(), strict=True):
        for b in range(timeline.bins):
            expected[b] += max(min(edges[b + 1], begin + size) - max(edges[b], begin), 0)
    found = sums_over_time(timeline, start, length, ns)
    # a moment between the last edge of the grid and the recording's end counts in the last bin
    assert found.sum() == pytest.approx(ns.sum())
    assert np.allclose(found, expected, atol=1.0)


def test_sums_over_time_take_any_numbers() -> None:
    """A foreign run's times may be before all time, beyond it, and of negative length."""
    timeline = make_timeline(START_NS, START_NS + 10 * BIN_NS, START_NS, BIN_NS, BIN_NS)
    numbers = np.array([np.iinfo(np.int64).min, -1, 0, START_NS, 1 << 62, np.iinfo(np.int64).max])
    start, length = (part.reshape(-1) for part in np.meshgrid(numbers, numbers))
    found = sums_over_time(timeline, start, length, np.ones(start.size))
    assert found.sum() == pytest.approx(start.size)


def test_workload_over_time_sums_to_its_time_without_own_will(tmp_path: Path) -> None:
    found = threads_of(random_spec(8).write(tmp_path / "r"))
    results = results_of(tmp_path / "r")
    drawn_s = sum(float((series * results.timeline.lengths_s).sum()) for series in found.over_time.values())
    own = ("idle", "child", "sleep", "ipc", "stopped")
    assert drawn_s == pytest.approx(sum(p.ns for p in found.of("workload") if p.kind not in own) / 1e9)


def test_checks_compare_thread_by_thread(tmp_path: Path) -> None:
    end = START_NS + 8 * BIN_NS
    times = [
        {"bin_ns": START_NS + i * BIN_NS, "ns": ns, "thread": thread, "state": state, "count": 1}
        for i in range(8)
        for thread in (1, 2)
        for state, ns in (("running", 40 * MS), ("runnable", 10 * MS), ("io_wait", 50 * MS))
    ]
    counts = {"run_ns": 320 * MS, "run_delay_ns": 80 * MS, "blkio_delay_ns": 400 * MS}
    rows = [
        thread_row({**THREADS[0], "start_ns": START_NS, "end_ns": end, **counts}),
        thread_row({**THREADS[1], "start_ns": START_NS, "end_ns": end, **counts, "run_ns": 400 * MS}),
        # known to the kernel for longer than we recorded, and too short: not compared
        thread_row({**THREADS[2], "start_ns": START_NS - 1, "end_ns": end, "run_ns": 1}),
        thread_row({**THREADS[3], "start_ns": START_NS, "end_ns": START_NS + 5, "run_ns": 1}),
    ]
    truth = threads_of(Spec(thread_time=times, thread=rows, run=facts_of_run()).write(tmp_path / "r")).truth
    assert truth is not None and truth.lifetime is not None and truth.run is not None
    assert (truth.lifetime.threads, truth.lifetime.difference) == (2, 0.0)
    assert truth.run.difference == pytest.approx(80 / 720)
    assert truth.run_delay is not None and truth.run_delay.difference == 0.0
    assert truth.blkio is not None and (truth.blkio.ours_ns, truth.blkio.difference) == (800 * MS, 0.0)


def test_io_delays_longer_than_lives_are_not_compared(tmp_path: Path) -> None:
    end = START_NS + 8 * BIN_NS
    asleep = {"bin_ns": START_NS, "length_ns": 8 * BIN_NS, "ns": 8 * BIN_NS, "state": "io_wait"}
    times = [asleep, {**asleep, "thread": 2}]
    rows = [
        thread_row({**THREADS[0], "end_ns": end, "blkio_delay_ns": 800 * MS}),
        thread_row({**THREADS[1], "end_ns": end, "blkio_delay_ns": end}),
    ]
    path = Spec(thread_time=times, thread=rows[:1], run=facts_of_run()).write(tmp_path / "r")
    truth = threads_of(path).truth
    assert truth is not None and truth.blkio is not None
    assert (truth.impossible_blkio, truth.blkio.difference) == (0, 0.0)
    path = Spec(thread_time=times, thread=rows, run=facts_of_run()).write(tmp_path / "s")
    truth = threads_of(path).truth
    assert truth is not None and (truth.impossible_blkio, truth.blkio) == (1, None)


def test_io_delays_noted_in_other_threads_are_not_compared(tmp_path: Path) -> None:
    end = START_NS + 8 * BIN_NS
    asleep = {"bin_ns": START_NS, "length_ns": 8 * BIN_NS, "ns": 8 * BIN_NS, "state": "io_wait"}
    times = [asleep, {**asleep, "thread": 2}]
    rows = [
        thread_row({**THREADS[0], "end_ns": end, "blkio_delay_ns": 800 * MS, "is_blkio_sure": True}),
        thread_row({**THREADS[1], "end_ns": end, "blkio_delay_ns": end, "is_blkio_sure": False}),
    ]
    truth = threads_of(Spec(thread_time=times, thread=rows, run=facts_of_run()).write(tmp_path / "r")).truth
    assert truth is not None and truth.blkio is not None
    assert (truth.blkio.threads, truth.blkio.difference) == (1, 0.0)
    assert (truth.unsure_blkio, truth.impossible_blkio) == (1, 0)


def test_counts_that_the_kernel_lacks_are_not_compared(tmp_path: Path) -> None:
    rows = [thread_row({**THREADS[0], "end_ns": START_NS + 8 * BIN_NS})]
    times = [{"bin_ns": START_NS, "length_ns": 8 * BIN_NS, "ns": 8 * BIN_NS, "state": "sleeping"}]
    truth = threads_of(Spec(thread_time=times, thread=rows, run=facts_of_run()).write(tmp_path / "r")).truth
    assert truth is not None and truth.lifetime is not None and truth.lifetime.difference == 0.0
    assert (truth.run, truth.run_delay, truth.blkio) == (None, None, None)


def test_place_of_a_lock_is_its_class_where_it_is_known(tmp_path: Path) -> None:
    asleep = {"bin_ns": FIRST_BIN, "state": "blocked", "stack_id": 3, "lock_kind": "rwsem_write"}
    times = [
        {**asleep, "ns": 5 * MS, "lock_id": 7},
        {**asleep, "ns": 3 * MS, "lock_id": 8},
        {**asleep, "ns": 2},
    ]
    lock = [{"lock_id": 7, "kind": "rwsem", "name": "inode.i_rwsem", "named_by": "slab"}]
    spec = Spec(thread_time=times, thread=[thread_row(THREADS[0])], lock=lock, run=facts_of_run())
    spec.stack = [{"stack_id": 3, "frames": STACKS[3]}]
    found = threads_of(spec.write(tmp_path / "r"))
    assert [(part.kind, part.place, part.ns) for part in found.places] == [
        ("lock", "inode.i_rwsem", 5 * MS),
        ("lock", "new_wait", 3 * MS + 2),
    ]


def test_tables_without_raw_give_the_same_results(tmp_path: Path) -> None:
    path = random_spec(9).write(tmp_path / "r")
    before = threads_of(path)
    shutil.rmtree(path / "raw")
    after = threads_of(path)
    assert (after.parts, after.places, after.phases, after.rows) == (
        before.parts,
        before.places,
        before.phases,
        before.rows,
    )
    frame = load(path, "thread_time")
    assert {"tid", "comm", "role", "cause", "place"} <= set(frame.columns)
    assert int(frame.ns.sum()) == sum(part.ns for part in before.parts)


def test_table_of_other_rules_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = random_spec(10, rows=20).write(tmp_path / "r")
    loaded(path)
    table = path / "tables/thread_time.parquet"
    made = table.stat().st_mtime_ns
    loaded(path)
    assert table.stat().st_mtime_ns == made
    monkeypatch.setitem(TABLES, "thread_time", replace(thread_time.TABLE, made_by="other rules"))
    loaded(path)
    assert table.stat().st_mtime_ns > made


def test_run_without_thread_tables_has_no_results(tmp_path: Path) -> None:
    run, tables = loaded(Spec().write(tmp_path / "r"))
    assert measure(run, tables).threads is None
    assert run.missing == []


@pytest.mark.parametrize("field", ["state", "ns", "stack_id"])
def test_recording_without_a_needed_field_is_refused(tmp_path: Path, field: str) -> None:
    path = Spec(thread=[], run=facts_of_run()).write(tmp_path / "r")
    layout = [column for column in THREAD_TIME if column[0] != field]
    (path / "raw/recorder/thread_time.rec").write_bytes(rec_bytes("thread_time", [{}], layout))
    run, tables = loaded(path)
    assert tables.get(thread_time.TABLE) is None
    assert any(f"has no field {field}" in sentence for sentence in run.missing)


def test_hostile_numbers_are_survived(tmp_path: Path) -> None:
    big = (1 << 64) - 1
    times: list[dict[str, Any]] = [
        {"bin_ns": FIRST_BIN, "ns": big, "max_ns": big, "length_ns": big, "state": 200, "by": 99},
        {"bin_ns": FIRST_BIN, "ns": 5, "state": "running", "samples": 3, "samples_user": (1 << 32) - 1},
        {"bin_ns": FIRST_BIN, "ns": 5, "state": "blocked", "stack_id": 1 << 30, "lock_kind": 77},
    ]
    thread: list[dict[str, Any]] = [
        {"thread": "x"},
        {"thread": 1, "comm": 7, "role": None, "run_ns": "much"},
        {},
    ]
    path = Spec(thread_time=times, thread=thread, run=facts_of_run()).write(tmp_path / "r")
    (path / "raw/phases.jsonl").write_text('{"name": 3}\n[]\nx\n')
    assert threads_of(path).parts


def test_no_cause_has_the_name_of_a_state_on_a_cpu() -> None:
    """Kinds of time are states and causes by name: a name of both would add a sleep to the time on a CPU."""
    assert not set(rules().causes) & set(ON_CPU)
