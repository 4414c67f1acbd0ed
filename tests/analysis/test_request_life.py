# SPDX-License-Identifier: BSD-2-Clause
"""Request life, active and idle time, and files, against known patterns and one row at a time."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.block import files, stage_percentiles
from analysis.measures.block import stages as request_life
from analysis.measures.device import depth_steps, utilization
from analysis.measures.results import Results, measure
from analysis.render import text
from analysis.rundir.run import Run, open_run
from analysis.sections.document import make_document
from analysis.tables.load import Tables, load_tables
from tests.analysis.measured import block_results
from tests.analysis.synthetic import START_NS, Spec, collector, request, run_json

DEV = 7 << 20 | 3


def load(spec: Spec, path: Path) -> tuple[Run, Tables, Results]:
    run = open_run(spec.write(path))
    tables = load_tables(run)
    return run, tables, measure(run, tables)


def life_of(rows: list[dict[str, Any]], path: Path) -> request_life.StageResults:
    block = load_tables(open_run(Spec(block=rows, run=run_json(60)).write(path))).block
    assert block is not None
    return request_life.measure_stages(block)


def test_constant_stages_equal_those_by_hand(tmp_path: Path) -> None:
    """Half of the writes inserted: Q2I 3 us, I2D 7 us; the others straight to the driver after 1 us."""
    rows = []
    for i in range(1000):
        t = START_NS + 50_000_000 + i * 1_000_000
        inserted = i % 2 == 0
        wait = 10_000 if inserted else 1000
        rows.append(
            request(
                t, i * 8, queue_ns=t - wait, insert_ns=t - 7000 if inserted else 0, complete_ns=t + 90_000
            )
        )
    rows.append(request(START_NS + 5, 0, queue_ns=START_NS + 500))  # queued after issue: in no latency
    (row,) = life_of(rows, tmp_path / "r").groups["direction"]
    assert (row.label, row.requests, row.inserted) == ("write", 1000, 500)
    means = {name: stage.mean_ns for name, stage in row.stages.items()}
    assert means == {"Q2I": 3000, "I2D": 7000, "Q2D": 5500, "D2C": 90_000, "Q2C": 95_500}
    assert row.stages["Q2C"].at_ns == [91_000, 100_000, 100_000, 100_000]
    assert row.stages["Q2I"].requests == 500


def test_insertion_outside_the_request_is_ignored(tmp_path: Path) -> None:
    t = START_NS + 50_000_000
    rows = [request(t, 0, insert_ns=t + 1), request(t, 8, insert_ns=t - 10_001), request(t, 16, insert_ns=t)]
    (row,) = life_of(rows, tmp_path / "r").groups["direction"]
    assert (row.requests, row.inserted, row.mean_ns("Q2I"), row.mean_ns("I2D")) == (3, 1, 10_000, 0)


def size_label(size: int) -> str:
    for limit, label in ((4, "to 4 KiB"), (16, "to 16 KiB"), (64, "to 64 KiB"), (256, "to 256 KiB")):
        if size <= limit * 1024:
            return label
    return "to 1 MiB" if size <= 1 << 20 else "more"


STAGES = {
    "Q2G": ("queue_ns", "get_request_ns"),
    "G2I": ("get_request_ns", "insert_ns"),
    "Q2I": ("queue_ns", "insert_ns"),
    "I2D": ("insert_ns", "issue_ns"),
    "Q2D": ("queue_ns", "issue_ns"),
    "D2C": ("issue_ns", "complete_ns"),
    "Q2C": ("queue_ns", "complete_ns"),
}


def expected_rows(rows: list[dict[str, Any]], group: str, label: Any) -> dict[str, dict[str, Any]]:
    """Requests, mean and percentiles of each stage by label, one row at a time."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if group in ("class", "size") and row["op"] not in ("read", "write"):
            continue
        stages = found.setdefault(label(row), {})
        for stage, (first, last) in STAGES.items():
            if row[first] and row[last]:
                stages.setdefault(stage, []).append(row[last] - row[first])
    for stages in found.values():
        for stage, times in stages.items():
            times.sort()
            n = len(times)
            at = [times[math.ceil(n * percent / 100) - 1] for percent in (50, 90, 99, 100)]
            stages[stage] = (n, pytest.approx(sum(times) / n, rel=1e-12), at)
    return found


@pytest.mark.parametrize(("chunk", "cells"), [(7, 512), (1 << 20, 512), (1 << 20, 1)])
def test_every_grouping_equals_one_row_at_a_time(
    tmp_path: Path, chunk: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_life, "CHUNK", chunk)
    monkeypatch.setattr(stage_percentiles, "FEW_CELLS", cells)  # 1: wide buckets
    rng = random.Random(7)
    rows = []
    for i in range(900):
        t = START_NS + 20_000_000_000 + i * 1000
        op = rng.choice(["read", "write", "write", "flush"])
        row = request(
            t, i * 8, 0 if op == "flush" else rng.choice((512, 4096, 4608, 65536, 1 << 20, 1 << 21))
        )
        row["op"] = op
        row["class"] = rng.choice(["data", "metadata", "journal"])
        row["comm"] = f"p{min(int(rng.expovariate(0.3)), 15)}".encode()
        row["queue_ns"] = t - int(10 ** rng.uniform(0, 10))
        row["complete_ns"] = t + int(10 ** rng.uniform(0, 10))
        between = sorted(rng.randint(row["queue_ns"], t) for _ in range(2))
        row["get_request_ns"] = rng.choice([0, between[0]])
        row["insert_ns"] = rng.choice([0, between[1]])
        rows.append(row)
    life = life_of(rows, tmp_path / "r")
    top = [name for name, _ in Counter(row["comm"].decode() for row in rows).most_common(8)]
    more = len({row["comm"] for row in rows}) - 8
    assert life.more_processes == more > 1
    # equally frequent names: the order among them is free, so take the ones shown
    shown = [row.label for row in life.groups["process"] if "more names" not in row.label]
    counts = Counter(row["comm"].decode() for row in rows)
    assert sorted(counts[name] for name in shown) == sorted(counts[name] for name in top)
    labels = {
        "direction": lambda row: row["op"],
        "class": lambda row: row["class"],
        "process": lambda row: c if (c := row["comm"].decode()) in shown else f"{more} more names",
        "size": lambda row: size_label(row["bytes"]),
    }
    for group, label in labels.items():
        found = {
            row.label: {name: (s.requests, s.mean_ns, s.at_ns) for name, s in row.stages.items()}
            for row in life.groups[group]
        }
        assert found == expected_rows(rows, group, label)
    assert life.present == list(STAGES)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=50))
def test_stage_buckets_keep_the_order(values: list[int]) -> None:
    ordered = np.array(sorted(values), dtype=np.int64)
    for shift in (16, 20):
        bucket = stage_percentiles.bucket(ordered, shift)
        assert (np.diff(bucket) >= 0).all() and bucket.min() >= 0 and bucket.max() < 64 << (23 - shift)


def test_merged_bios_and_plugs_are_counted(tmp_path: Path) -> None:
    """q2m_ns and m2d_ns are sums over a request's merges; one whose merges were not all seen has none."""
    t = START_NS + 50_000_000
    rows = [
        request(t, 0, merges=3, q2m_ns=900, m2d_ns=30_000, get_request_ns=t - 500),
        request(t + 100, 800, merges=1, q2m_ns=100, m2d_ns=50_000, get_request_ns=t - 300),
        request(t + 200, 1600, merges=5),
        request(t + 300, 2400, op="read"),
    ]
    plugs: list[dict[str, Any]] = [
        {"plug_ns": t - 9000, "unplug_ns": t - 1000, "dev": DEV, "pid": 7, "depth": 4, "comm": b"dd"},
        {"plug_ns": 0, "unplug_ns": t + 500, "dev": DEV, "pid": 7, "depth": 1, "by_schedule": 1},
        {"plug_ns": t, "unplug_ns": t + 2000, "dev": DEV, "pid": 7, "depth": 16, "comm": b"dd"},
    ]
    run, tables, m = load(Spec(block=rows, plug=plugs), tmp_path / "r")
    block = block_results(m)
    assert block.plugs is not None
    write, read = block.stages.merges
    assert (write.merges, write.timed_merges, write.q2m_ns, write.m2d_ns) == (9, 4, 250, 20_000)
    assert (read.timed_merges, read.q2m_ns, read.m2d_ns) == (0, None, None)
    (one,) = block.plugs
    assert (one.dev, one.unplugs, one.requests, one.by_schedule) == (DEV, 3, 21, 1)
    assert (one.depth_at, one.held_mean_ns, one.held_at_ns) == ([4, 16, 16], 5000, [2000, 8000, 8000])
    document = make_document(run, tables, m)
    sections = {section.title: section for section in document.sections}
    assert [row[:3] for row in sections["Plugs"].tables[0].rows] == [("loop3 (disk)", "3", "66.7")]
    assert not any("not recorded" in note for note in sections["Request stages (Q2C)"].notes)
    heads = [table.heads for table in sections["Request stages (Q2C)"].tables]
    assert ("<merged bios", "merges", "Q2M mean", "M2D mean") in heads
    assert max(map(len, text.render(document).splitlines())) <= 80


def test_merges_and_requeues_are_counted(tmp_path: Path) -> None:
    rows = [request(START_NS + i, i * 8, merges=i % 4, requeues=2 if i == 5 else 0) for i in range(12)]
    rows.append(request(START_NS + 100, 0, 0, op="flush"))
    write, flush = life_of(rows, tmp_path / "r").merges
    assert (write.requests, write.merged_requests, write.merges, write.most_merges) == (12, 9, 18, 3)
    assert (write.requeued_requests, write.requeues) == (1, 2)
    assert (flush.op, flush.requests, flush.merges, flush.requeues) == ("flush", 1, 0, 0)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-20, 130), st.integers(0, 40)), max_size=20), st.sampled_from([2, 1 << 19])
)
def test_depth_and_periods_equal_counting_every_moment(items: list[tuple[int, int]], chunk: int) -> None:
    begin = np.array([a for a, _ in items], dtype=np.int64) + 1000
    end = begin + np.array([n for _, n in items], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depth_steps, "CHUNK", chunk)
        found = utilization.utilization_of(np.sort(begin), np.sort(end), 1000, 1100)
    depths = [int(((begin <= t) & (t < end)).sum()) for t in range(1000, 1100)]
    counts = Counter(depths)
    assert found.time_at_ns.tolist()[: max(depths) + 1] == [counts[d] for d in range(max(depths) + 1)]
    assert found.time_at_ns.sum() == 100
    assert found.mean_depth == pytest.approx(sum(depths) / 100)
    periods: dict[bool, list[int]] = {True: [], False: []}
    for t, depth in enumerate(depths):
        at_work = depth > 0
        if t and (depths[t - 1] > 0) == at_work:
            periods[at_work][-1] += 1
        else:
            periods[at_work].append(1)
    for kind, lengths in ((found.active, periods[True]), (found.idle, periods[False])):
        assert (kind.count, kind.total_ns) == (len(lengths), sum(lengths))
        assert kind.longest_ns == (max(lengths) if lengths else None)
        ordered = sorted(lengths)
        assert kind.p50_ns == (ordered[math.ceil(len(ordered) / 2) - 1] if lengths else None)


def test_shares_of_depths_add_up() -> None:
    """Twelve requests that start 10 ns apart and end together."""
    begin = np.arange(0, 120, 10, dtype=np.int64)
    found = utilization.utilization_of(begin, np.full(12, 200, dtype=np.int64), 0, 1000)
    assert found.shares[:7] == pytest.approx([0.8, 0.01, 0.01, 0.02, 0.04, 0.03 + 0.09, 0])
    assert sum(found.shares) == pytest.approx(1)


def file_spec() -> Spec:
    """inode 50: many small; 60: few large; 70: jumps about; 80..99: one request each; the rest of no file."""
    rows = []
    t = START_NS + 60_000_000
    for i in range(40):
        # one takes 39 us longer: of 40, it is the 99th percentile but not the median
        rows.append(
            request(t + i, 1000 + i * 8, ino=50, complete_ns=t + i + (139_000 if i == 7 else 100_000))
        )
    for i in range(2):
        rows.append(request(t + 100 + i, 1_000_000 + i * 2048, 1 << 20, ino=60))
    for i in range(10):
        rows.append(
            request(t + 200 + i, 5_000_000 * (i % 2) + i * 80_000, 512, ino=70, op="read", complete_ns=t)
        )
    for i in range(20):
        rows.append(request(t + 300 + i, 20_000_000 + i * 8, ino=80 + i))
    rows += [request(t + 400 + i, 30_000_000 + i * 8) for i in range(5)]
    rows.append(request(t + 500, 0, 0, op="flush", ino=50))
    paths = [{"dev": "7:3", "ino": 50, "path": "mail/inbox"}, {"dev": "7:3", "ino": 60, "path": "big.iso"}]
    return Spec(block=rows, paths=paths)


def test_top_files_have_the_most_requests(tmp_path: Path) -> None:
    run, tables, m = load(file_spec(), tmp_path / "r")
    found = block_results(m).files
    assert (found.files, found.requests, found.without) == (23, 72, 5)
    assert found.bytes == 40 * 4096 + (2 << 20) + 10 * 512 + 20 * 4096
    rows = {row.ino: row for row in found.rows}
    assert [row.ino for row in found.rows][:2] == [60, 50] and 70 in rows and len(found.rows) == 8
    assert (rows[50].path, rows[60].path, rows[70].path) == ("mail/inbox", "big.iso", None)
    assert (rows[50].bytes, rows[50].seeks.requests, rows[50].seeks.seeks) == (40 * 4096, 40, 0)
    assert (rows[60].seeks.seeks, rows[70].seeks.seeks) == (1, 10)
    assert rows[50].d2c_ns == (100_000, 139_000) and rows[50].q2c_ns == (110_000, 149_000)
    assert rows[70].d2c_ns is None is rows[70].q2c_ns  # complete before they are issued
    assert rows[50].seeks.sequential == 1.0 and rows[70].seeks.sequential == 0.0
    report = text.render(make_document(run, tables, m))
    section = report[report.index("\nSEEKS BY PROCESS AND FILE ---") : report.index("\nREQUEST LATENCY")]
    assert "mail/inbox" in section and "15 more inode numbers" in section
    assert re.search(r"^  - +70 ", section, re.MULTILINE)
    assert max(map(len, report.splitlines())) <= 80


def test_inodes_of_another_device_are_other_files(tmp_path: Path) -> None:
    spec = file_spec()
    spec.block += [request(START_NS + 70_000_000 + i, i * 8, ino=50, dev=8 << 20) for i in range(30)]
    spec.paths = [*(spec.paths or []), {"dev": "8:0", "ino": 50, "path": "elsewhere"}]
    _, _, m = load(spec, tmp_path / "r")
    found = block_results(m).files
    assert found.files == 24
    by_path = {row.path: row.seeks.requests for row in found.rows if row.ino == 50}
    assert by_path == {"mail/inbox": 40, "elsewhere": 30}


def test_requests_of_an_earlier_file_with_the_inode_are_apart(tmp_path: Path) -> None:
    at = [START_NS + 60_000_000 + i for i in range(3)] + [START_NS + 200_000_000 + i for i in range(5)]
    rows = [request(t, i * 8, ino=50 + i % 2) for i, t in enumerate(at)]
    paths = [{"dev": "7:3", "ino": ino, "path": f"p{ino}"} for ino in (50, 51)]
    paths[0] |= {"born_ns": START_NS + 150_000_000}
    run, tables, m = load(Spec(block=rows, paths=paths), tmp_path / "r")
    assert {row.path: row.earlier for row in block_results(m).files.rows} == {"p50": 2, "p51": 0}
    (files_section,) = [one for one in make_document(run, tables, m).sections if one.key == "seeks_by"]
    (note,) = [note for note in files_section.notes if "older" in note]
    assert note.startswith(
        "of the requests of inode 50, 2 are older than p50: they belong to an earlier file"
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 8))
def test_top_files_equal_full_sorting(values: list[int], many: int) -> None:
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:many]
    assert files._top(np.array(values, dtype=np.int64), many).tolist() == expected


def test_sections_name_what_the_table_lacks(tmp_path: Path) -> None:
    spec = Spec(block=[request(START_NS + 60_000_000 + i * 1_000_000, i * 80_000) for i in range(50)])
    run, tables, m = load(spec, tmp_path / "r")
    sections = {section.title: section for section in make_document(run, tables, m).sections}
    life = sections["Request stages (Q2C)"]
    (note,) = [note for note in life.notes if "not recorded" in note]
    assert note.startswith("Q2G, G2I, plug sizes: ") and 'COLLECT="block blktrace"' in note
    assert any("no Q2I and no I2D" in note for note in life.notes)
    assert "Q2I" not in life.tables[0].heads
    assert "merged" in sections["Reordering between Q and D"].definition
    by_process = sections["Seeks by process and file"]
    assert len(by_process.tables) == 1 and "no table of files: no read or write" in by_process.notes[-1]
    assert "256" in sections["Streams"].definition


@pytest.mark.parametrize(
    ("asked", "state", "says"),
    [
        (["block"], "", 'COLLECT="block blktrace" also leaves a block trace'),
        (["block", "blktrace"], "on", "the block trace that this run left in raw/ has them"),
        (["block", "blktrace"], "off", ""),
    ],
)
def test_remedy_names_nothing_the_run_already_did(
    tmp_path: Path, asked: list[str], state: str, says: str
) -> None:
    spec = Spec(block=[request(START_NS + 60_000_000 + i * 1_000_000, i * 80_000) for i in range(50)])
    spec.run["collect"] = asked
    losses = {"block": collector(50), **({"blktrace": collector(9, state=state)} if state else {})}
    spec.losses = {"collectors": losses, "complete": True}
    run, tables, m = load(spec, tmp_path / "r")
    life = next(one for one in make_document(run, tables, m).sections if one.title == "Request stages (Q2C)")
    (note,) = [note for note in life.notes if "not recorded" in note]
    assert ("raw/" in note) == bool(says)
    assert says in note
    assert ("COLLECT" in note) == (len(asked) == 1)


def test_run_without_requests_has_no_stages(tmp_path: Path) -> None:
    run, tables, m = load(Spec(), tmp_path / "r")
    titles = {section.title for section in make_document(run, tables, m).sections}
    assert not titles & {"Streams", "Seeks by process and file", "Request stages (Q2C)", "Device utilization"}
