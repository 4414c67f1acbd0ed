# SPDX-License-Identifier: BSD-2-Clause
"""A real sweep, made, killed in the middle, continued and reported: figures against the runs' own files."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from analysis.measures.sweep.figures import load_figures
from analysis.rundir.sweep_dir import open_sweep
from tests.marks import needs_root

TREE = Path(__file__).parents[2]
WORDS = ("FS=ext4 xfs", "WL=createdelete", "SCALE=quick", "ARGS=-n 2000 -o 2000", "REPS=3", "TRACING=both")


def _make(*words: str) -> list[str]:
    return ["make", "--no-print-directory", *words]


def _report(path: Path) -> str:
    command = [sys.executable, "-m", "analysis", "report", str(path)]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (path / "sweep.txt").read_text()


@pytest.mark.long
@needs_root
def test_real_sweep_is_reported_in_the_middle_and_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "sweep"
    command = _make("sweep", *WORDS, f"OUT={path}")
    with subprocess.Popen(command, cwd=TREE, stdout=subprocess.DEVNULL, start_new_session=True) as driver:
        deadline = time.monotonic() + 120
        while len(list(path.glob("runs/c*/task.json"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        os.killpg(driver.pid, signal.SIGINT)
        driver.wait(120)
    told = _report(path)
    assert re.search(r"\d of 12 planned runs\s+(!! )?are done", told)
    subprocess.run(command, cwd=TREE, check=True, capture_output=True, timeout=300)
    told = " ".join(_report(path).split())
    assert "planned 12 done 12" in told
    assert "best by mixed operations, /s (higher is better): " in told
    _check_figures(path)
    _check_cost(told)


def _check_figures(path: Path) -> None:
    """Every headline is what the phases of its run give; SQL reads the same."""
    frame = load_figures(open_sweep(path))
    headlines = frame[frame.headline & ~frame.anchor]
    assert len(headlines) == 12 and frame[frame.anchor].task.nunique() == 2
    for row in headlines.to_dict("records"):
        lines = (path / "runs" / row["task"] / "raw/phases.jsonl").read_text().splitlines()
        [phase] = [phase for phase in map(json.loads, lines) if phase["name"] == "mixed"]
        rate = phase["ops"] / (phase["end_ns"] - phase["start_ns"]) * 1e9
        assert row["value"] == pytest.approx(rate)
    query = f"""
        SELECT fs, traced, avg(value)
        FROM read_parquet('{path}/tables/figures/**/*.parquet', hive_partitioning = true)
        WHERE headline AND NOT anchor GROUP BY ALL ORDER BY ALL
    """
    means = headlines.groupby(["fs", "traced"]).value.mean()
    for fs, traced, mean in duckdb.execute(query).fetchall():
        assert mean == pytest.approx(means[fs, traced])


def _check_cost(told: str) -> None:
    """The cost of tracing has a row a file system, with the ratio of the traced to the untraced mean."""
    table = told.partition("COST OF TRACING")[2].partition("WITHIN THE RUNS")[0]
    assert re.search(r"ext4 [\d,.]+ \+-[\d,.]+ ", table) and re.search(r"xfs [\d,.]+ \+-[\d,.]+ ", table)
