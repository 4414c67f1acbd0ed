# SPDX-License-Identifier: BSD-2-Clause
"""Decompression bombs: small files that claim millions of rows are refused, and the report states that."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.rundir.limits import LINES_MOST
from analysis.rundir.run import open_run
from analysis.tables.load import TABLES, load_tables
from analysis.tables.store import Column, schema
from tests.analysis.synthetic import Spec, decaying_ext3

REPORT = """
import sys
from analysis.__main__ import main
status = main(["report", sys.argv[1]])
with open("/proc/self/status") as file:  # getrusage() counts what pytest took before exec
    print(*(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")))
sys.exit(status)
"""
PART = 1 << 20
PEAK_BYTES_MOST = 600_000_000  # of a report of next to nothing: 170 MB


def report(path: Path) -> tuple[int, str]:
    """Peak memory of a report, and its text."""
    done = subprocess.run([sys.executable, "-c", REPORT, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1]), " ".join((path / "report.txt").read_text().split())


def filled(column: Column, rows: int) -> Any:
    """A column of one repeated value."""
    if column.kind in ("category", "text"):
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["x"])
    if column.kind == "bool":
        return pa.array(np.zeros(rows, np.bool_))
    if column.kind == "hist":
        return pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * 256, np.uint32)), 256)
    return pa.array(np.full(rows, 10**12, dtype=np.uint64 if column.kind == "id" else np.int64))


def write_bomb(path: Path, table: str, parts: int, rows: int = PART) -> Path:
    """A run with a table of `parts` times so many rows."""
    Spec().write(path)
    (path / "raw/recorder" / f"{table}.rec").unlink()
    (path / "tables").mkdir()
    arrow = schema(table, TABLES[table].columns, {})
    part = pa.RecordBatch.from_arrays(
        [filled(column, rows) for column in TABLES[table].columns], schema=arrow
    )
    with pq.ParquetWriter(path / "tables" / f"{table}.parquet", arrow, compression="zstd") as writer:
        for _ in range(parts):
            writer.write_batch(part)
    assert (path / "tables" / f"{table}.parquet").stat().st_size < 10_000_000
    return path


def test_small_file_of_twenty_million_rows_is_refused(tmp_path: Path) -> None:
    peak_bytes, text = report(write_bomb(tmp_path / "r", "lock_wait", 20))
    assert peak_bytes < PEAK_BYTES_MOST
    rows = 20 * PART
    assert (
        f"no lock_wait table: lock_wait.parquet has {rows:,} rows; no more than 20,000,000 are read" in text
    )


def test_sparse_recording_of_a_terabyte_is_refused(tmp_path: Path) -> None:
    path = decaying_ext3(2, 50).write(tmp_path / "r")
    with (path / "raw/recorder/lock_wait.rec").open("rb+") as file:
        file.truncate(1 << 40)
    run = open_run(path)
    load_tables(run)
    assert [gap for gap in run.missing if gap.startswith("no lock_wait table: lock_wait.rec has ")]
    assert not (path / "tables/lock_wait.parquet").exists()


@pytest.mark.parametrize(
    "name",
    [
        "raw/phases.jsonl",
        pytest.param("raw/paths.jsonl", marks=pytest.mark.long),
        pytest.param("raw/recorder/lock.jsonl", marks=pytest.mark.long),
    ],
)
def test_millions_of_empty_lines_are_refused(tmp_path: Path, name: str) -> None:
    path = Spec().write(tmp_path / "r")
    (path / name).write_bytes(b"{}\n" * (16_000_000 // 3))
    peak_bytes, text = report(path)
    assert peak_bytes < PEAK_BYTES_MOST
    assert f"{Path(name).name} has more than {LINES_MOST:,} lines" in text


def test_endless_line_is_refused(tmp_path: Path) -> None:
    path = decaying_ext3(2, 50).write(tmp_path / "r")
    (path / "raw/phases.jsonl").write_bytes(b'{"name": "' + b"x" * 2_000_000 + b'"}\n')
    run = open_run(path)
    assert load_tables(run).phases is None
    assert "no phase table: phases.jsonl has a line of more than 1,048,576 bytes" in run.missing


def test_large_json_values_are_not_kept_in_memory(tmp_path: Path) -> None:
    """100 MB of JSON, of which Python would make 2.4 GB."""
    path = Spec().write(tmp_path / "r")
    line = json.dumps({"stack_id": 1, "frames": ["a"], "more": [{}] * 200_000}, separators=(",", ":"))
    (path / "raw/recorder/stack.jsonl").write_text(f"{line}\n" * 160)
    peak_bytes, _ = report(path)
    assert peak_bytes < PEAK_BYTES_MOST


def test_row_limits_are_above_real_recordings() -> None:
    assert min(TABLES["block"].rows_most, TABLES["plug"].rows_most) > 10**9
    assert min(spec.rows_most for spec in TABLES.values()) >= LINES_MOST


def test_memory_limit_gives_an_error_with_a_remedy(tmp_path: Path) -> None:
    """The kernel refuses memory beyond RLIMIT_DATA; that is where large arrays are not in files."""
    code = (
        "import sys; from pathlib import Path; from analysis import spill;"
        " from analysis.__main__ import main; spill.LIBRARY = Path('/nonexistent');"
        " sys.exit(main(sys.argv[1:]))"
    )
    path = write_bomb(tmp_path / "r", "call", 1, rows=PART // 3)  # 2 KB a row
    done = subprocess.run(
        [sys.executable, "-c", code, "report", path],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (500_000_000, 500_000_000)),
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        "seekmeter: the run directory needs more memory than the 0.5 GB it may take; report it on a machine"
        " with more, or leave out what is large\n"
    )


def test_memory_limit_is_three_quarters_of_the_machine() -> None:
    code = (
        "import resource; from analysis.rundir.limits import limit_memory; limit_memory();"
        " print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    (total,) = (
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    assert int(said) == pytest.approx(total * 0.75, rel=0.01)
