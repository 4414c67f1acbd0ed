# SPDX-License-Identifier: BSD-2-Clause
"""Figures are of the recorded time: rows outside of it are left out, and it ends where the recording ends.

Expected values are counted here, row by row, from what was put into the run; nothing of analysis/ helps.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analysis.__main__ import main
from analysis.measures.results import measure
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.tables import store
from analysis.tables.load import load_tables
from tests.analysis.recomputed import figures_behind, section
from tests.analysis.synthetic import BIN_NS, START_NS, Spec, collector, request, run_json

SECONDS = 4
END_NS = START_NS + SECONDS * 10**9
HALF_NS = 500_000_000  # programs may be attached this long before the start
BINNED = ("lock_wait", "lock_sample", "hold", "call")


def busy_disk(seed: int) -> Spec:
    """A disk that was busy before the recording began, throughout it, and after it ended.

    Every request has a sector of its own, and every row of bins a number of its own, to know them by.
    """
    rng = random.Random(seed)
    spec = Spec(run=run_json(SECONDS), lock_sample=[], hold=[])
    for i in range(2000):
        issue = rng.randrange(START_NS - HALF_NS, END_NS + HALF_NS)
        row = request(issue, 8 * i, 4096 * rng.randrange(1, 9), op=rng.choice(["read", "write"]))
        row["queue_ns"] = issue - rng.randrange(1, 300_000_000)
        row["complete_ns"] = issue + rng.randrange(1, 300_000_000)
        if rng.random() < 0.1:  # completion not seen, and perhaps without a bound
            row |= {"complete_ns": 0, "end_by_ns": rng.choice([0, row["complete_ns"]])}
        spec.block.append(row)
    spec.block.sort(key=lambda row: row["complete_ns"])
    for i, bin_ns in enumerate(range(START_NS - HALF_NS, END_NS + HALF_NS, BIN_NS)):
        at = bin_ns - 33_000_000  # the recording begins and ends within a bin
        spec.lock_wait.append({"bin_ns": at, "lock_id": 64, "spin_ns": i + 1, "count": 1})
        spec.call.append({"bin_ns": at, "count": 1, "bytes": i + 1, "total_ns": 5})
        assert spec.lock_sample is not None and spec.hold is not None
        spec.lock_sample.append({"bin_ns": at, "count": i + 1})
        spec.hold.append({"bin_ns": at, "lock_id": 64, "acquired": i + 1, "holds": 1, "hold_ns": 1})
    return spec


def stays(row: dict[str, Any]) -> bool:
    """Whether a request counts, by the definition in tables/left_out.py."""
    if row["complete_ns"]:
        return bool(START_NS <= row["complete_ns"] <= END_NS)
    if row["issue_ns"] > END_NS:
        return False
    ended_by = row.get("end_by_ns") or row["issue_ns"]
    return bool(ended_by >= START_NS)


def is_recorded(bin_ns: int) -> bool:
    """Whether a part of a bin was recorded."""
    return any(START_NS <= moment < END_NS for moment in (bin_ns, bin_ns + BIN_NS - 1))


def number_of(table: str) -> str:
    """The column that identifies each row."""
    return {"lock_wait": "spin_ns", "lock_sample": "count", "hold": "acquired", "call": "bytes"}[table]


@pytest.mark.parametrize("seed", range(5))
def test_rows_outside_the_recorded_time_are_counted(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ROW_GROUP", 300)  # rows are left out of several parts
    monkeypatch.setattr(store, "CACHE_BYTES", 10_000)
    spec = busy_disk(seed)
    path = spec.write(tmp_path / "r")
    tables = load_tables(open_run(path))
    kept = pq.read_table(path / "tables/block.parquet").column("sector").to_pylist()
    assert kept == [row["sector"] for row in spec.block if stays(row)]
    gone = [row for row in spec.block if not stays(row)]
    before = [row for row in gone if (row["complete_ns"] or row["end_by_ns"] or row["issue_ns"]) < START_NS]
    assert 0 < len(before) < len(gone)
    assert (tables.left_out["block"].before, tables.left_out["block"].after) == (
        len(before),
        len(gone) - len(before),
    )
    for table in BINNED:
        rows = getattr(spec, table)
        number = number_of(table)
        found = pq.read_table(path / f"tables/{table}.parquet").column(number).to_pylist()
        wanted = [row[number] for row in rows if is_recorded(row["bin_ns"])]
        assert found == wanted, table
        assert len(wanted) == SECONDS * 10 + 1  # the bins that the start and the end lie in are among them
        early = sum(row["bin_ns"] + BIN_NS <= START_NS for row in rows)
        left_out = tables.left_out[table]
        assert (left_out.before, left_out.after) == (early, len(rows) - len(wanted) - early)


def test_rows_at_the_edges_are_kept_or_left_out_exactly(tmp_path: Path) -> None:
    """The first and the last ns are recorded; a bin that ends as the recording begins is outside."""
    ends = [START_NS - 1, START_NS, START_NS + 1, END_NS - 1, END_NS, END_NS + 1]
    spec = Spec(run=run_json(SECONDS))
    spec.block = [request(t - 100_000, 8 * i, complete_ns=t) for i, t in enumerate(ends)]
    spec.counter = [{"t_ns": t, "name": "mem.dirty_bytes", "value": i} for i, t in enumerate(ends)]
    begins = [START_NS - BIN_NS - 1, START_NS - BIN_NS, START_NS - BIN_NS + 1, END_NS - 1, END_NS]
    spec.call = [{"bin_ns": t, "count": 1, "bytes": i} for i, t in enumerate(begins)]
    path = spec.write(tmp_path / "r")
    load_tables(open_run(path))

    def column(table: str, name: str) -> list[int]:
        found: list[int] = pq.read_table(path / f"tables/{table}.parquet").column(name).to_pylist()
        return found

    assert column("block", "sector") == [8, 16, 24, 32]
    assert column("counter", "value") == [1, 2, 3, 4]
    assert column("call", "bytes") == [2, 3]


def counters(spec: Spec, times: list[int]) -> dict[str, int]:
    """Add samples of the device's counters, as the kernel counts; returns their increase."""
    increase = {}
    for op in ("read", "write"):
        values = [
            7 + sum(r["bytes"] for r in spec.block if r["op"] == op and 0 < r["complete_ns"] <= t)
            for t in times
        ]
        spec.counter += [
            {"t_ns": t, "name": f"disk.{op}_bytes", "value": value}
            for t, value in zip(times, values, strict=True)
        ]
        increase[op] = values[-1] - values[0]
    return increase


@pytest.mark.usefixtures("words_only")
def test_report_covers_the_recorded_time_and_states_the_rest(tmp_path: Path) -> None:
    spec = busy_disk(7)
    spec.block = [row for row in spec.block if row["complete_ns"]]
    # first and last look lie inside the recorded time: between them the device counted less than the table
    increase = counters(spec, [START_NS + 40_000_000, START_NS + 10**9, END_NS - 60_000_000])
    path = spec.write(tmp_path / "r")
    make_report(path)
    text = (path / "report.txt").read_text()
    inside = [row for row in spec.block if stays(row)]
    lines = section(text, "THROUGHPUT")
    for op in ("read", "write"):
        size = sum(row["bytes"] for row in inside if row["op"] == op)
        requests, bytes_, mb_s, *_ = figures_behind(lines, f"{op} data")
        assert requests == sum(row["op"] == op for row in inside)
        assert bytes_ == pytest.approx(size, rel=0.005)
        assert mb_s == pytest.approx(size / 1e6 / SECONDS, rel=0.005)
        assert increase[op] < size
        assert f"the device's own counter, {op}: {increase[op]:,} B; as traced" in folded(lines)
    losses = folded(section(text, "LOST EVENTS AND OVERHEAD"))
    early = sum(row["complete_ns"] < START_NS for row in spec.block)
    late = sum(row["complete_ns"] > END_NS for row in spec.block)
    words = "block: {:,} rows of table block left out (not lost): completed {}"
    assert words.format(early, "before the recorded time began") in losses
    assert words.format(late, "after it ended") in losses
    assert "calls: 5 rows of table call left out (not lost): their time bins ended before" in losses
    # bins lie 33 ms before whole tenths of a second
    whole = "the time bin in which the recording began counts whole, with 33.0 ms before it"
    assert f"calls, locks, holds: {whole}" in losses
    assert "the table holds" not in losses  # what was left out explains the difference
    assert "block lost" not in losses
    assert "*" not in text.split("LOST EVENTS AND OVERHEAD")[0]  # nothing is marked: nothing was lost
    # a copy without raw/ gives the same report
    shutil.rmtree(path / "raw")
    make_report(path)
    assert (path / "report.txt").read_text() == text


def folded(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_older_run_keeps_all_rows(tmp_path: Path) -> None:
    spec = busy_disk(3)
    del spec.run["clock"]["record_start_ns"]
    path = spec.write(tmp_path / "r")
    tables = load_tables(open_run(path))
    assert tables.left_out == {}
    assert tables.rows["block"] == len(spec.block)
    assert all(tables.rows[table] == len(getattr(spec, table)) for table in BINNED)


def test_imported_trace_keeps_all_rows(tmp_path: Path) -> None:
    spec = busy_disk(3)
    spec.run["imported"] = {"format": "blktrace"}
    tables = load_tables(open_run(spec.write(tmp_path / "r")))
    assert tables.left_out == {} and tables.rows["block"] == len(spec.block)


def test_older_tables_are_converted_again_if_raw_exists(tmp_path: Path) -> None:
    spec = busy_disk(5)
    path = spec.write(tmp_path / "r")
    facts = json.loads((path / "run.json").read_text())
    older = {**facts, "clock": {}}  # then no table leaves anything out, as older programs did
    (path / "run.json").write_text(json.dumps(older))
    load_tables(open_run(path))
    (path / "run.json").write_text(json.dumps(facts))
    copy = shutil.copytree(path, tmp_path / "copy")
    inside = sum(map(stays, spec.block))
    assert load_tables(open_run(path)).rows["block"] == inside < len(spec.block)
    # a copy without raw/ keeps its tables, and the report states that
    shutil.rmtree(copy / "raw")
    run = open_run(copy)
    tables = load_tables(run)
    assert tables.rows["block"] == len(spec.block)
    measure(run, tables)
    assert any("rows lie more than 0.1 s outside the recorded time" in gap for gap in run.missing)


RECORDED_NS = 700_000_000  # of a workload that ran 22.2 s


def killed(until_ns: int | None, complete: bool, end_ns: int | None = None) -> Spec:
    """A run whose workload went on for 22.2 s, of which 0.7 s were recorded.

    until_ns: the recorder's own last word. end_ns: the session's, if it lived.
    """
    spec = Spec(run=run_json(22.2))
    clock = spec.run["clock"]
    del clock["record_end_ns"], clock["workload_end_ns"]
    spec.run["state"] = "interrupted"
    if end_ns is not None:
        clock |= {"record_end_ns": end_ns, "workload_end_ns": end_ns - 10**8}
        spec.run["state"] = "complete"
    step = RECORDED_NS // 700
    spec.block = [request(START_NS + i * step, 8 * i, 18_800) for i in range(700)]
    spec.block[-1]["complete_ns"] = START_NS + RECORDED_NS  # the last thing there is
    spec.call = [
        {"bin_ns": START_NS + i * BIN_NS, "count": 1, "bytes": 1_000_000, "total_ns": 5} for i in range(7)
    ]
    spec.phases = [
        {
            "name": "early",
            "start_ns": START_NS,
            "end_ns": START_NS + 3 * 10**8,
            "ops": 30,
            "bytes": 3_000_000,
        },
        {
            "name": "long",
            "start_ns": START_NS + 3 * 10**8,
            "end_ns": START_NS + 22_200_000_000,
            "ops": 2190,
            "bytes": 219_000_000,
        },
    ]
    recorder = {"cpu_ns": 1_000_000} | ({} if until_ns is None else {"until_ns": until_ns})
    spec.losses = {
        "collectors": {"block": collector(700), "calls": collector(7)},
        "recorder": recorder,
        "complete": complete,
    }
    spec.run["collect"] = ["block", "calls"]
    return spec


SESSION, RECORDER = "the session did not end in order", "the recorder did not end in order"
NOBODY = "no file states when recording ended"


@pytest.mark.parametrize(
    ("until_ns", "complete", "end_ns", "expected_ns", "said"),
    [
        # the session was killed: its recorder noticed, and said when
        (START_NS + 750_000_000, True, None, 750_000_000, SESSION),
        # both were killed: the recorder's last sign is later, or earlier, than the last request
        (START_NS + 710_000_000, False, None, 710_000_000, RECORDER),
        (START_NS + 200_000_000, False, None, RECORDED_NS, RECORDER),
        # of a recorder that says nothing of it, as older ones do
        (None, True, None, RECORDED_NS, NOBODY),
        (None, False, None, RECORDED_NS, RECORDER),
        # the recorder alone was killed, and the session went on without it
        (START_NS + 710_000_000, False, START_NS + 22_200_000_000, 710_000_000, RECORDER),
        (None, False, START_NS + 22_200_000_000, RECORDED_NS, RECORDER),
    ],
)
@pytest.mark.usefixtures("words_only")
def test_results_end_where_the_recording_ends(
    tmp_path: Path, until_ns: int | None, complete: bool, end_ns: int | None, expected_ns: int, said: str
) -> None:
    path = killed(until_ns, complete, end_ns).write(tmp_path / "r")
    make_report(path)
    text = (path / "report.txt").read_text().replace(" * ---", " ---")  # marked, as the recorder died
    size, seconds = 700 * 18_800, expected_ns / 1e9
    requests, bytes_, mb_s, iops, *_ = figures_behind(section(text, "THROUGHPUT"), "write data")
    assert requests == 700
    assert bytes_ == pytest.approx(size, rel=0.005)
    assert mb_s == pytest.approx(size / 1e6 / seconds, rel=0.006)  # 18.8 MB/s, and not 0.59
    assert iops == pytest.approx(700 / seconds, rel=0.006)
    words = f"{said}: figures are of the {seconds:.2f} s until"
    assert words in folded(section(text, "WARNINGS AND GAPS"))
    assert re.search(rf"recorded +{seconds:.2f} s", text)
    # of a phase that went on, what was recorded is by the time that was; what it says of itself by all of it
    lines = section(text, "TIME BY PHASE")
    inside_s = seconds - 0.3
    n, length_s, ops_s, own, app, dev, *_ = figures_behind(lines, "long")
    assert n == 1
    assert length_s == pytest.approx(21.9, rel=0.006)
    assert ops_s == pytest.approx(100, rel=0.01)
    assert own == pytest.approx(10, rel=0.01)
    assert app == pytest.approx(4 / inside_s, rel=0.01)
    assert dev == pytest.approx(400 * 18_800 / 1e6 / inside_s, rel=0.02)
    assert f"long: app, dev, meta and seeks cover the {inside_s:.2f} s that were recorded" in folded(lines)
    assert "early: app" not in folded(lines)
    early = figures_behind(lines, "early")
    assert early[2] == pytest.approx(100, rel=0.01) and early[4] == pytest.approx(10, rel=0.01)


def test_movie_ends_where_the_recording_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = killed(START_NS + 750_000_000, True).write(tmp_path / "r")
    assert main(["movie", str(path)]) == 0, capsys.readouterr().err
    assert "0.75 s</title>" in (path / "movie.html").read_text()


def test_run_that_ended_in_order_has_no_warning(tmp_path: Path) -> None:
    spec = killed(START_NS + 22_200_000_000, True, START_NS + 22_200_000_000)
    run = open_run(spec.write(tmp_path / "r"))
    m = measure(run, load_tables(run))
    assert m.window.elapsed_s == 22.2
    assert not any("in order" in gap for gap in run.missing)
    assert all(row.recorded_s == row.elapsed_s for row in m.phases or [])
