# SPDX-License-Identifier: BSD-2-Clause
"""Cubes of the page against DuckDB over the tables, in windows at random edges of their bins."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from analysis.causes.rules import rules
from analysis.exporters.with_report import critical_path as path_export
from analysis.figures.panels.thread_states import LABELS
from analysis.measures.clip import measure_clipped
from analysis.measures.critical_path.results import PathResults
from analysis.measures.disk.states import WORDS
from analysis.measures.locks import lock_stacks
from analysis.measures.results import Results, measure
from analysis.measures.threads.parts import VOLUNTARY
from analysis.page.binning import TOO_LARGE
from analysis.page.columns import Column
from analysis.page.data import Asked, Budget, Content, Cube, FromCube, Label, Panel, Samples
from analysis.page.packed import ALL_BYTES, pack
from analysis.page.parts import (
    calls,
    counters,
    cpu_samples,
    critical_path,
    dips,
    disk_time,
    disks,
    events,
    locks,
    off_cpu,
    phases,
    queue_depth,
    threads,
)
from analysis.page.parts import (
    lock_stacks as flames,
)
from analysis.render.output import RunSource
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis import disk_runs, test_critical_path, test_events, test_locks
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, request, run_json
from tests.analysis.thread_tables import random_spec

RUNS = Path(__file__).parents[1] / "data" / "runs"
WINDOWS = 12
FAR = 1 << 61
Sums = dict[tuple[str, ...], tuple[int, ...]]


def unpacked(name: str, folder: Path) -> Path:
    """A recorded run of tests/data/runs."""
    subprocess.run(["tar", "-xf", str(RUNS / f"{name}.tar.xz"), "-C", str(folder)], check=True)
    return folder / name


def decoded(column: Column) -> list[int]:
    """The numbers of a column, read from its bytes as a page does."""
    values, number, shift = [], 0, 0
    for byte in column.encoded():
        number |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            values.append(number)
            number = shift = 0
    if column.coding.endswith("s"):
        values = [value // 2 if value % 2 == 0 else -(value + 1) // 2 for value in values]
    if column.coding.startswith("d"):
        total = 0
        for at, value in enumerate(values):
            total += value
            values[at] = total
    return values


@dataclass(frozen=True)
class Opened:
    """A cube as a page reads it."""

    cube: Cube
    edges: list[int]
    words: list[tuple[str, ...]]  # of each key
    rows: list[tuple[int, int, tuple[int, ...]]]  # bin, key, values

    def sums(self, first: int, last: int, *labels: int) -> Sums:
        """By the words of these labels, over the bins [first, last)."""
        found: Sums = {}
        for bin_, key, values in self.rows:
            if first <= bin_ < last:
                name = tuple(self.words[key][label] for label in labels)
                before = found.get(name)
                found[name] = values if before is None else self._added(before, values)
        return {name: values for name, values in found.items() if any(values)}

    def _added(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        both = zip(self.cube.values, a, b, strict=True)
        return tuple(max(x, y) if value.how == "max" else x + y for value, x, y in both)


def words_of(label: Label) -> list[str]:
    """The word of each key; of a call path its frames, outermost first."""
    codes = decoded(label.codes)
    if label.nodes is None:
        return [label.words[code] for code in codes]
    parents, words = decoded(label.nodes.parent), decoded(label.nodes.word)
    found = []
    for node in codes:
        frames: list[str] = []
        while node >= 0:
            frames.append(label.words[words[node]])
            node = parents[node]
        found.append(";".join(reversed(frames)))
    return found


def opened(content: Content, key: str) -> Opened:
    cube = next(cube for cube in content.cubes if cube.key == key)
    assert not cube.why
    bins = decoded(cube.entries.bin)
    assert bins == sorted(bins)
    edges = decoded(cube.edges)
    assert all(a < b for a, b in pairwise(edges))
    columns = [decoded(column) for column in cube.entries.values]
    rows = list(zip(bins, decoded(cube.entries.key), zip(*columns, strict=True), strict=True))
    words = list(zip(*(words_of(label) for label in cube.labels), strict=True))
    return Opened(cube, edges, words, rows)


def asked_of(path: Path, budget: int = ALL_BYTES) -> Asked:
    """What modules of the page are asked for a run directory."""
    run = open_run(path)
    recorded = load_tables(run)
    whole = measure(run, recorded)
    tables, results = measure_clipped(run, recorded, whole)
    source = RunSource(run, tables, results, recorded, whole, "title", [])
    zero = results.window.work_start_ns
    start, end = results.window.start_ns - zero, results.window.end_ns - zero
    return Asked(source, zero, start, end, Budget(budget))


def windows(cube: Opened, seed: int = 1) -> list[tuple[int, int]]:
    """Random pairs of edges, and all of the time."""
    draw = random.Random(seed)
    bins = len(cube.edges) - 1
    pairs = [sorted(draw.sample(range(bins + 1), 2)) for _ in range(WINDOWS)]
    return [(0, bins), *((first, last) for first, last in pairs)]


def assert_equal(
    asked: Asked, cube: Opened, sql: str, labels: tuple[int, ...], values: tuple[int, ...]
) -> None:
    """The cube's sums equal those of a query, which returns the words of the labels, then the values.

    $a and $b: edges; the first and the last bin have what is outside, too. TABLES: where the tables are.
    """
    tables = asked.source.run.open_path / "tables"
    compared = 0
    with duckdb.connect() as base:
        for first, last in windows(cube):
            a = cube.edges[first] + asked.zero_ns if first else -FAR
            b = cube.edges[last] + asked.zero_ns if last < len(cube.edges) - 1 else FAR
            rows = base.execute(sql.replace("TABLES", str(tables)), {"a": a, "b": b}).fetchall()
            truth = {tuple(map(str, row[: len(labels)])): tuple(map(int, row[len(labels) :])) for row in rows}
            truth = {name: sums for name, sums in truth.items() if any(sums)}
            found = {
                name: picked
                for name, sums in cube.sums(first, last, *labels).items()
                if any(picked := tuple(sums[at] for at in values))
            }
            assert found == truth
            compared += len(truth)
    assert compared > WINDOWS


UNTIL = """CASE WHEN {x} <= bin_ns THEN 0 WHEN {x} >= bin_ns + length_ns THEN ns
    ELSE (ns::HUGEINT * ({x} - bin_ns)) // length_ns END"""
INSIDE = f"({UNTIL.format(x='$b')}) - ({UNTIL.format(x='$a')})"
ENDS_INSIDE = "bin_ns + length_ns > $a AND bin_ns + length_ns <= $b"


def test_thread_time_of_windows_equals_duckdb(tmp_path: Path) -> None:
    asked = asked_of(random_spec(1).write(tmp_path / "run"))
    content = threads.make(asked)
    cube = opened(content, "threads")
    sql = f"""SELECT CASE thread WHEN 0 THEN 'all other threads' ELSE comm || ' (' || tid || ')' END,
        role, state, sum({INSIDE}), sum(CASE WHEN {ENDS_INSIDE} THEN count ELSE 0 END),
        max(CASE WHEN {ENDS_INSIDE} THEN max_ns ELSE 0 END)
        FROM 'TABLES/thread_time.parquet' GROUP BY ALL"""
    assert_equal(asked, cube, sql, (0, 1, 2), (0, 1, 2))
    results = asked.source.results.threads
    assert results is not None
    text = {name: cause.text for name, cause in rules().causes.items()}
    bins = len(cube.edges) - 1
    by_cause = cube.sums(0, bins, 1, 3)
    for part in results.parts:
        if part.kind in text and part.kind != "none":
            same = [p for p in results.parts if p.role == part.role and text.get(p.kind) == text[part.kind]]
            assert by_cause[part.role, text[part.kind]][0] == sum(p.ns for p in same)


def test_sleeps_by_call_path_equal_duckdb(tmp_path: Path) -> None:
    asked = asked_of(random_spec(2).write(tmp_path / "run"))
    cube = opened(off_cpu.make(asked), "off_cpu")
    own_will = ", ".join(f"'{kind}'" for kind in VOLUNTARY)
    sql = f"""SELECT role, sum({INSIDE}), sum(CASE WHEN {ENDS_INSIDE} THEN count ELSE 0 END)
        FROM 'TABLES/thread_time.parquet'
        WHERE state IN ('sleeping', 'blocked', 'io_wait', 'other') AND cause NOT IN ({own_will})
        GROUP BY ALL"""
    assert_equal(asked, cube, sql, (1,), (0, 1))
    path = "compilebench;start_this_handle;__jbd2_log_wait_for_space;jbd2_log_wait_commit;schedule;"
    assert any(words[0].startswith(path) for words in cube.words)


def test_joined_bins_stay_exact_at_their_edges(tmp_path: Path) -> None:
    path = random_spec(3).write(tmp_path / "run")
    fine, few = (opened(threads.make(asked_of(path, size)), "threads") for size in (ALL_BYTES, 400_000))
    assert 2 < len(few.edges) < len(fine.edges) / 2
    assert set(few.edges) < set(fine.edges)
    at = {edge: number for number, edge in enumerate(fine.edges)}
    for first, last in windows(few):
        truth = fine.sums(at[few.edges[first]], at[few.edges[last]], 0, 1, 2, 3)
        assert few.sums(first, last, 0, 1, 2, 3) == truth


NAMED = """FROM 'TABLES/lock_wait.parquet' JOIN 'TABLES/lock.parquet' AS lock USING (lock_id)
    WHERE bin_ns < $b AND bin_ns + CASE length_ns WHEN 0 THEN 100000000 ELSE length_ns END > $a
    AND lock.name != '' """


@pytest.mark.parametrize("sampled", [False, True])
def test_lock_waits_of_windows_equal_duckdb(tmp_path: Path, sampled: bool) -> None:
    asked = asked_of(test_locks.random_spec(5, sampled).write(tmp_path / "run"))
    content = locks.make(asked)
    whole = opened(content, "locks")
    rows = asked.source.results.locks.rows
    assert rows is not None
    named = {" ".join(row.key) for row in rows if row.named_by}
    cube = replace(whole, rows=[row for row in whole.rows if whole.words[row[1]][0] in named])
    kind = "lock_wait.kind || CASE mode WHEN 'read' THEN ':R' WHEN 'write' THEN ':W' ELSE '' END || ' '"
    sql = f"""SELECT {kind} || lock.name, sum(spin_ns + sleep_ns), sum(count), sum(spin_ns), sum(sleep_ns),
        max(max_ns) {NAMED} GROUP BY ALL"""
    assert_equal(asked, cube, sql, (0,), (0, 1, 2, 3, 4))
    # also those that only a sampled caller names, over the whole
    sums = whole.sums(0, len(whole.edges) - 1, 0)
    for row in rows:
        assert abs(sums[(" ".join(row.key),)][0] - row.total_ns) <= 1  # two parts, each rounded
        assert sums[(" ".join(row.key),)][1:] == (row.waits, row.spin_ns, row.sleep_ns, row.max_ns)
    assert ("~" in whole.cube.title) == sampled


@pytest.mark.parametrize("sampled", [False, True])
def test_lock_flames_equal_the_reports_stacks(tmp_path: Path, sampled: bool) -> None:
    asked = asked_of(test_locks.random_spec(6, sampled).write(tmp_path / "run"))
    content = flames.make(asked)
    waits = asked.source.results.locks.waits
    assert waits is not None
    for key, stacks_of in (("waiting", lock_stacks.waiting), ("holding", lock_stacks.holding)):
        cube = opened(content, key)
        sums = cube.sums(0, len(cube.edges) - 1, 0)
        stacks = stacks_of(waits, asked.source.tables.stacks)
        assert {name: total for (name,), (total, _) in sums.items()} == {
            ";".join(stack.frames): round(stack.ns) for stack in stacks if round(stack.ns)
        }
        assert ("~" in cube.cube.title) == sampled
    if not sampled:
        cube = opened(content, "waiting")
        sql = """SELECT 'all', sum(spin_ns + sleep_ns), sum(spin_ns) FROM 'TABLES/lock_wait.parquet'
            WHERE bin_ns < $b AND bin_ns + CASE length_ns WHEN 0 THEN 100000000 ELSE length_ns END > $a"""
        one = replace(cube, words=[("all",)] * len(cube.words))
        assert_equal(asked, one, sql, (0,), (0, 1))


@pytest.mark.parametrize("name", ["ext4-perf", "btrfs-with"])
def test_calls_of_windows_equal_duckdb(tmp_path: Path, name: str) -> None:
    asked = asked_of(unpacked(name, tmp_path))
    window = asked.source.results.window
    content = calls.make(asked)
    cube = opened(content, "calls")
    length = f"CASE length_ns WHEN 0 THEN {BIN_NS} ELSE length_ns END"
    sql = f"""SELECT call, target, sum(count), sum(bytes), sum(errors), sum(total_ns), max(max_ns)
        FROM 'TABLES/call.parquet' WHERE bin_ns < $b AND bin_ns + {length} > $a
        AND bin_ns + {length} // 2 BETWEEN {window.start_ns} AND {window.end_ns - 1} GROUP BY ALL"""
    assert_equal(asked, cube, sql, (0, 1), (0, 1, 2, 3, 4))
    # the panel's keys are those of the application's bytes
    panel = next(panel for panel in content.panels if panel.key == "application")
    moved = asked.source.results.app.bytes
    assert moved is not None
    for series in panel.series:
        assert isinstance(series.source, FromCube)
        keys = set(series.source.keys or ())
        assert moved[series.name] == sum(values[1] for _, key, values in cube.rows if key in keys)


def test_cpu_samples_of_windows_equal_duckdb(tmp_path: Path) -> None:
    asked = asked_of(unpacked("ext4-perf", tmp_path))
    cube = opened(cpu_samples.make(asked), "on_cpu")
    sql = """SELECT CASE WHEN in_workload THEN 'workload' ELSE 'other tasks' END, sum(period_ns), count(*)
        FROM 'TABLES/cpu_sample.parquet' WHERE mode != 'idle' AND t_ns >= $a AND t_ns < $b GROUP BY ALL"""
    assert_equal(asked, cube, sql, (1,), (0, 1))
    profile = asked.source.results.cpu
    assert profile is not None
    sums = cube.sums(0, len(cube.edges) - 1, 0, 1)
    for whose, stacks in (("workload", profile.stacks_workload), ("other tasks", profile.stacks_others)):
        for stack in stacks:
            assert sums[";".join(stack.frames), whose][0] == stack.ns


def test_events_of_windows_equal_duckdb(tmp_path: Path) -> None:
    asked = asked_of(test_events.write(tmp_path / "run", test_events.events()))
    content = events.make(asked)
    cube = opened(content, "events")
    low, high = asked.zero_ns + asked.start_ns, asked.zero_ns + asked.end_ns
    begin = f"greatest(start_ns, {low})"
    end = f"CASE WHEN is_open THEN {begin} ELSE greatest(least(end_ns, {high}), {begin}) END"
    sql = f"""WITH own AS (SELECT *, {begin} AS s, {end} AS e FROM 'TABLES/event.parquet'
          WHERE (dev IS NULL OR dev = {7 << 20 | 3}) AND end_ns >= {low} AND start_ns <= {high})
        SELECT kind, why, sum(CASE WHEN s >= $a AND s < $b THEN 1 ELSE 0 END),
          sum(greatest(least(e, $b) - greatest(s, $a), 0)),
          sum(CASE WHEN s >= $a AND s < $b THEN bytes ELSE 0 END),
          max(CASE WHEN s >= $a AND s < $b THEN e - s ELSE 0 END) FROM own GROUP BY ALL"""
    assert_equal(asked, cube, sql, (0, 1), (0, 1, 2, 3))
    results = asked.source.results.origins.events
    assert results is not None
    by_kind = cube.sums(0, len(cube.edges) - 1, 0)
    assert {(row.kind, row.count, row.total_ns, row.max_ns) for row in results.rows} == {
        (kind, count, ns, most) for (kind,), (count, ns, _, most) in by_kind.items()
    }
    commits = [mark for mark in content.marks if mark.kind == "commit"]
    row = next(row for row in results.rows if row.kind == "jbd2_commit")
    assert len(commits) == row.count
    assert max(mark.end_ns - mark.start_ns for mark in commits) == row.max_ns


def test_critical_path_of_windows_equals_duckdb(tmp_path: Path) -> None:
    asked = asked_of(test_critical_path.write(tmp_path / "run", test_critical_path.fsync_of_a_child()))
    path = asked.source.results.path
    assert isinstance(path, PathResults)
    file = path_export.make(asked.source).files[path_export.NAME]
    (asked.source.run.open_path / "tables" / path_export.NAME).write_bytes(file)
    content = critical_path.make(asked)
    cube = opened(content, "path")
    sql = f"""SELECT kind, sum(greatest(least(end_ns, $b) - greatest(start_ns, $a), 0))
        FROM 'TABLES/{path_export.NAME}' GROUP BY ALL"""
    assert_equal(asked, cube, sql, (0,), (0,))
    assert sum(ns for (ns,) in cube.sums(0, len(cube.edges) - 1, 0).values()) == path.total_ns
    groups = {series.name for panel in content.panels for series in panel.series}
    assert groups == {words[3] for words in cube.words}


def test_emulated_disks_states_equal_the_reports(tmp_path: Path) -> None:
    asked = asked_of(disk_runs.random_run(4)[0].write(tmp_path / "run"))
    cube = opened(disk_time.make(asked), "disk_time")
    results = asked.source.results.disks
    assert results is not None
    (disk,) = results.disks
    whole = cube.sums(0, len(cube.edges) - 1, 1)
    assert whole == {(WORDS[state],): (ns,) for state, ns in disk.state_ns.items() if ns}
    (head,) = disks.make(asked).panels
    assert max(samples(head, "highest")[1]) == disk.cylinders - 1
    for first, last in windows(cube):
        sums = cube.sums(first, last, 1)
        assert sum(ns for (ns,) in sums.values()) == cube.edges[last] - cube.edges[first]
        a, b = (np.array([cube.edges[at] + asked.zero_ns]) for at in (first, last))
        busy = results.states[disk.number].busy
        assert sum(ns for (word,), (ns,) in sums.items() if word != "idle") == int(
            (busy.until(b) - busy.until(a))[0]
        )


def test_depth_panel_equals_a_plain_count(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [request(START_NS + draw.randrange(10**9), 8 * i) for i in range(200)]
    run = run_json(1.0)
    asked = asked_of(
        Spec(block=sorted(rows, key=lambda row: row["complete_ns"]), run=run).write(tmp_path / "r")
    )
    (panel,) = queue_depth.make(asked).panels
    series = next(one for one in panel.series if one.name == "at device, mean")
    t, v = samples(panel, series.name)
    begin = np.array([row["issue_ns"] for row in rows]) - asked.zero_ns
    for at in draw.sample(range(len(t) - 1), 30):
        inside = np.minimum(begin + 100_000, t[at + 1]) - np.maximum(begin, t[at])
        assert v[at] == pytest.approx(np.maximum(inside, 0).sum() / (t[at + 1] - t[at]), abs=1e-4)


def test_each_disk_has_a_line_that_is_busy_by_itself(tmp_path: Path) -> None:
    rows = [request(START_NS + 10**6 * i, 8 * i, dev=7 << 20 | 3 + i % 2) for i in range(900)]
    asked = asked_of(Spec(block=rows, run=run_json(1.0)).write(tmp_path / "run"))
    panels = {panel.key: panel for panel in disks.make(asked).panels}
    assert sorted(panels) == ["disk_busy", "disk_seeks"]
    for series in panels["disk_busy"].series:
        t, v = samples(panels["disk_busy"], series.name)
        busy_ns = sum(value / 100 * (b - a) for value, (a, b) in zip(v, pairwise(t), strict=False))
        assert busy_ns == pytest.approx(450 * 100_000, rel=1e-3)


def samples(panel: Panel, name: str) -> tuple[list[int], list[float]]:
    """Times and values of a series of samples."""
    source = next(series.source for series in panel.series if series.name == name)
    assert isinstance(source, Samples)
    return decoded(source.t), [value * source.scale for value in decoded(source.v)]


def test_counters_become_levels_and_shares(tmp_path: Path) -> None:
    at = [START_NS + 100_000_000 * (i + 1) for i in range(4)]
    rows: list[dict[str, Any]] = []
    for i, t in enumerate(at):
        rows.append({"t_ns": t, "name": "mem.dirty_bytes", "value": 5_000_000 * i})
        rows.append({"t_ns": t, "name": "cpu.user_ns", "value": 150_000_000 * i})
        rows.append({"t_ns": t, "name": "psi.io_full_ns", "value": 20_000_000 * i})
    asked = asked_of(Spec(counter=rows).write(tmp_path / "run"))
    panels = {panel.key: panel for panel in counters.make(asked).panels}
    assert samples(panels["dirty_memory"], "dirty") == ([t - asked.zero_ns for t in at], [0, 5, 10, 15])
    assert samples(panels["cpu"], "own code")[1] == pytest.approx([1.5] * 4)
    assert samples(panels["pressure"], "I/O, all tasks")[1] == pytest.approx([20.0] * 4)


def test_marks_lie_where_phases_and_stops_are(tmp_path: Path) -> None:
    spec = random_spec(1)
    spec.call = [
        {"bin_ns": START_NS + BIN_NS * (i + 1), "call": "write", "count": 50, "bytes": 4096, "total_ns": 1000}
        for i in range(99)
        if not 40 <= i < 46
    ]
    asked = asked_of(spec.write(tmp_path / "run"))
    marks = phases.make(asked).marks
    assert sorted(
        (mark.name, mark.start_ns + asked.zero_ns, mark.end_ns + asked.zero_ns) for mark in marks
    ) == [
        (phase["name"], phase["start_ns"], phase["end_ns"])
        for phase in sorted(spec.phases, key=lambda phase: (phase["name"], phase["start_ns"]))
    ]
    spec.phases = []
    asked = asked_of(spec.write(tmp_path / "plain"))
    stops = [mark for mark in dips.make(asked).marks if mark.kind == "stop"]
    begin = START_NS + 41 * BIN_NS
    assert [(mark.start_ns + asked.zero_ns, mark.end_ns + asked.zero_ns) for mark in stops] == [
        (begin, begin + 6 * BIN_NS)
    ]


def test_empty_run_says_why_each_cube_is_empty(tmp_path: Path) -> None:
    asked = asked_of(Spec().write(tmp_path / "run"))
    packed = pack(asked.source, asked.budget)
    cubes: list[Mapping[str, Any]] = packed.header["cubes"]
    assert {cube["key"] for cube in cubes} >= {"threads", "path", "locks", "calls", "events", "waiting"}
    assert {cube["key"] for cube in cubes} >= {"holding", "on_cpu", "off_cpu", "requests"}
    assert all(cube["why"] for cube in cubes)
    assert all(
        panel["why"] or panel["series"] for panel in packed.header["panels"] if panel["kind"] != "lanes"
    )


HOSTILE = b"<b>&\x1b[2J\xe2\x80\xae"


def test_hostile_run_is_packed_without_control_characters(tmp_path: Path) -> None:
    spec = random_spec(4)
    for row in spec.thread or []:
        row["comm"] = HOSTILE.decode() + row["comm"]
    spec.lock = [{"lock_id": 1, "kind": "mutex", "name": HOSTILE.decode(), "named_by": "symbol"}]
    spec.lock_wait = [
        {"bin_ns": START_NS + BIN_NS, "lock_id": 1, "spin_ns": 5, "sleep_ns": 7, "waiter_name": HOSTILE},
        {"bin_ns": 1, "lock_id": 2**64 - 1, "spin_ns": 5, "sleep_ns": 7, "kind": 99, "waiter": 77},
        {"bin_ns": 2**63 - 1, "lock_id": 3, "spin_ns": 5, "sleep_ns": 7, "length_ns": 2**62},
    ]
    spec.call = [{"bin_ns": START_NS + BIN_NS, "call": 77, "total_ns": 2**62, "bytes": 2**62}] * 3
    spec.phases = [{"name": HOSTILE.decode(), "start_ns": START_NS - 10**18, "end_ns": START_NS + 10**18}]
    spec.counter = [
        {"t_ns": START_NS + i, "name": "mem.dirty_bytes", "value": 2**63 - 1 if i % 2 else 0}
        for i in range(5)
    ]
    asked = asked_of(spec.write(tmp_path / "run"))
    packed = pack(asked.source, asked.budget)
    text = repr(packed.header)
    assert "<b>&" in text
    assert not any(c in text for c in "\x1b\u202e")
    assert next(cube for cube in packed.header["cubes"] if cube["key"] == "calls")["why"] == TOO_LARGE
    threads_cube = opened(threads.make(asked), "threads")
    assert len(threads_cube.rows) > 100


def test_panels_of_locks_and_threads_equal_the_reports_series(tmp_path: Path) -> None:
    """Sums of a panel's keys over all time, against the static graph's series."""

    def total(cube: Opened, source: object) -> float:
        assert isinstance(source, FromCube)
        keys = set(source.keys or ())
        return source.scale * sum(values[source.value] for _, key, values in cube.rows if key in keys)

    def compare(results: Results, content: Content, key: str, panel: str, drawn: Mapping[str, float]) -> None:
        cube = opened(content, key)
        series = next(one for one in content.panels if one.key == panel).series
        assert {one.name: pytest.approx(total(cube, one.source)) for one in series} == drawn

    asked = asked_of(test_locks.random_spec(7, sampled=False).write(tmp_path / "locks"))
    results = asked.source.results
    waits = results.locks.waits
    assert waits is not None
    lengths = results.timeline.lengths_s
    sleeping = {" ".join(key).strip(): float((v * lengths).sum()) for key, v in waits.sleep_series.items()}
    compare(results, locks.make(asked), "locks", "lock_sleep", sleeping)
    asked = asked_of(random_spec(8).write(tmp_path / "threads"))
    results = asked.source.results
    assert results.threads is not None
    lengths = results.timeline.lengths_s
    words: Callable[[str], str] = lambda name: LABELS[name]  # noqa: E731
    states = {words(name): float((v * lengths).sum()) for name, v in results.threads.over_time.items()}
    compare(results, threads.make(asked), "threads", "thread_states", states)


def test_spin_share_has_no_division_by_unknown_cpus(tmp_path: Path) -> None:
    spec = test_locks.random_spec(9, sampled=False)
    spec.run["machine"] = {}
    panels = {panel.key: panel for panel in locks.make(asked_of(spec.write(tmp_path / "run"))).panels}
    assert not panels["lock_spin"].series
    assert "number of CPUs" in panels["lock_spin"].why
    assert panels["lock_sleep"].series
