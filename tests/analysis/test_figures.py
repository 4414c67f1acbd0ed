# SPDX-License-Identifier: BSD-2-Clause
"""What workloads report themselves, nonsense left out; the disk's part of iomatrix's cells, counted anew."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analysis.measures.app.iomatrix import measure_matrix
from analysis.report import make_report
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.page_html import Parsed, runs_one_script
from tests.analysis.synthetic import START_NS, Spec, request


def with_figures(path: Path, lines: list[str], spec: Spec | None = None) -> Path:
    run = (spec or Spec()).write(path)
    (run / "raw" / "figures.jsonl").write_text("".join(line + "\n" for line in lines))
    return run


def cell(operation: str, start: int, end: int, moved: int, inodes: dict[str, int]) -> dict[str, Any]:
    return {
        "table": "iomatrix cell",
        "operation": operation,
        "file_kib": 64,
        "record_kib": 4,
        "kib_per_s": 1234.5,
        "times": 1,
        "start_ns": start,
        "end_ns": end,
        "bytes": moved,
        **inodes,
    }


def test_results_survive_parquet_and_are_shown(tmp_path: Path) -> None:
    rows = [
        {"table": "", "peak_jobs_per_min": 73088.25, "peak_passed": "no"},
        {"table": "steps", "tasks": 8, "start_ns": 2**62 + 1, "jobs_per_min": 1.5},
        {"table": "steps", "tasks": 16, "start_ns": 5, "jobs_per_min": 2500000.0},
    ]
    path = with_figures(tmp_path / "run", [json.dumps(row) for row in rows])
    tables = load_tables(open_run(path))
    assert tables.figures is not None
    assert tables.figures.tables == {
        of: [{k: v for k, v in row.items() if k != "table"} for row in rows if row["table"] == of]
        for of in ("", "steps")
    }
    values = pq.read_table(path / "tables/figure.parquet").to_pylist()
    assert [v["value"] for v in values if v["name"] == "jobs_per_min"] == [1.5, 2500000.0]
    assert [v["value"] for v in values if v["name"] == "peak_passed"] == [None]
    make_report(path)
    text = (path / "report.txt").read_text()
    assert "peak jobs per min  73,088" in text
    assert "WORKLOAD RESULTS: STEPS" in text
    shutil.rmtree(path / "raw")
    make_report(path)
    assert (path / "report.txt").read_text() == text


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        "{",
        '{"a":1}',
        '{"table":5,"a":1}',
        '{"table":"x"}',
        '{"table":"x","a":null}',
        '{"table":"x","a":[1]}',
        '{"table":"x","a":1e999}',
        '{"table":"x","a":NaN}',
        '{"table":"x","a":true}',
        '{"table":"x","a":' + "9" * 400 + "}",
        '{"table":"iomatrix cell","operation":7}',
        '{"table":"iomatrix cell","operation":"\\u001b[31m","kib_per_s":-1}',
        '{"table":"x\\u0000\\n","<b>":"<script>"}',
        '{"table":"","' + "n" * 500 + '":"' + "v" * 5000 + '"}',
    ],
)
def test_malformed_results_are_left_out_or_escaped(tmp_path: Path, line: str) -> None:
    path = with_figures(tmp_path / "run", [line, '{"table":"good","a":1}'])
    make_report(path)
    text = (path / "report.txt").read_text()
    assert "WORKLOAD RESULTS: GOOD" in text
    assert all(ch.isprintable() or ch == "\n" for ch in text)
    assert max(map(len, text.splitlines())) <= 80
    assert runs_one_script(Parsed((path / "report.html").read_text()))


def test_disk_share_of_a_cell_equals_a_naive_count(tmp_path: Path) -> None:
    rng = random.Random(5)
    cells = [
        cell(
            rng.choice(["read", "random write"]),
            START_NS + i * 1000_000,
            START_NS + i * 1000_000 + 900_000,
            rng.choice([4096, 65536, 1 << 20]),
            # a run of before has one inode
            rng.choice([{"ino": 11}, {"ino_min": 12, "ino_max": 12}, {"ino_min": 11, "ino_max": 12}]),
        )
        for i in range(40)
    ]
    block = []
    for i in range(400):
        issue = START_NS + rng.randrange(40_000_000)
        more = {
            "op": rng.choice(["read", "write", "flush"]),
            "class": rng.choice(["data", "metadata"]),
            "ino": rng.choice([0, 11, 12, 13]),
            "complete_ns": issue + rng.randrange(1, 300_000),
        }
        block.append(request(issue, i * 8, rng.choice([4096, 16384]), **more))
    block.sort(key=lambda row: row["complete_ns"])
    path = with_figures(tmp_path / "run", [json.dumps(one) for one in cells], Spec(block=block))
    tables = load_tables(open_run(path))
    matrix = measure_matrix(tables.figures, tables.block)
    assert matrix is not None and matrix.seen
    marks = set()
    for found, one in zip(matrix.cells, cells, strict=True):
        op = "read" if one["operation"] == "read" else "write"
        expected = sum(
            row["bytes"]
            for row in block
            if row["op"] == op
            and row["class"] == "data"
            and row["ino"] in (0, *(one[name] for name in ("ino", "ino_min", "ino_max") if name in one))
            and one["start_ns"] <= row["complete_ns"] < one["end_ns"]
        )
        assert found.disk_bytes == expected
        assert found.mark == ("" if not expected else "d" if expected >= one["bytes"] / 2 else "+")
        marks.add(found.mark)
    assert marks == {"", "+", "d"}
