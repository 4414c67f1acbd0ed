# SPDX-License-Identifier: BSD-2-Clause
"""Frames of a run's tables hold what its Parquet files do; the example notebook draws a run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pyarrow.parquet as pq
import pytest

from analysis import frames
from analysis.errors import OptionError
from analysis.tables.load import TABLES
from tests.analysis.synthetic import START_NS, Spec, request
from tests.analysis.test_questions import DATA, unpacked

TREE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run, without tables."""
    return unpacked(DATA / "queries" / "ext4-small.tar.xz", tmp_path_factory.mktemp("runs"))


def test_frames_hold_every_table_of_a_run(run: Path) -> None:
    loaded = frames.tables(run)
    stored = {file.stem: file for file in run.glob("tables/*.parquet")}
    stored["critical_path"] = run / "critical_path.parquet"
    assert set(loaded) == set(stored)
    assert len(loaded) > 15
    for table, frame in loaded.items():
        rows = pq.read_table(stored[table])
        assert list(frame.columns) == rows.column_names
        assert len(frame) == rows.num_rows
        for column in rows.column_names:
            known = frame[column].notna()
            wanted = [value for value in rows.column(column).to_pylist() if value is not None]
            got = frame[column][known].map(lambda value: list(value) if np.ndim(value) else value).tolist()
            assert got == wanted, f"{table}.{column}"
        if table in TABLES:
            assert frame.attrs["units"] == {column.name: column.unit for column in TABLES[table].columns}


def test_nullable_numbers_keep_all_digits(tmp_path: Path) -> None:
    """Inode numbers above 2**53, which a float would round, beside a null."""
    inodes = [2**53 + 1, 0, 2**60 + 3]
    rows = [request(START_NS + i, 2**40 + i, ino=ino) for i, ino in enumerate(inodes)]
    block = frames.load(Spec(block=rows).write(tmp_path / "r"), "block")
    assert block["sector"].tolist() == [2**40, 2**40 + 1, 2**40 + 2]
    assert block["ino"].isna().tolist() == [False, True, False]
    assert block["ino"].dropna().tolist() == [2**53 + 1, 2**60 + 3]
    assert block.attrs["units"]["sector"] == "512 B sectors"


def test_table_that_a_run_lacks_is_an_error(run: Path) -> None:
    with pytest.raises(OptionError, match=r"blokc is no table; choose from block, call"):
        frames.load(run, "blokc")
    with pytest.raises(OptionError, match="has no table hold: holds was not asked for"):
        frames.load(run, "hold")


def test_seconds_count_from_the_workloads_start(run: Path) -> None:
    assert f'"workload_start_ns": {frames.start_ns(run)}' in (run / "run.json").read_text()


def test_example_notebook_draws_every_request_of_a_run(run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "latency.png"
    environment = {"PATH": "/usr/bin:/bin", "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "analysis.example.notebook", run, picture],
        cwd=TREE, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    block = pq.read_table(run / "tables/block.parquet").to_pylist()
    for kind in ("data", "journal"):  # the count of written requests stands in the printed table
        written = sum((row["op"], row["class"]) == ("write", kind) for row in block)
        assert re.search(rf"\b{kind} +{written}\.0 ", done.stdout), done.stdout
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 300 and pixels.shape[1] > 500
    journal_ink = (0x4B / 255, 0x2A / 255, 0x84 / 255)
    stripe = (0.85, 0.85, 0.85)
    for colour in (journal_ink, stripe):
        assert (abs(pixels[:, :, :3] - colour).max(axis=2) < 0.01).sum() > 100, colour
