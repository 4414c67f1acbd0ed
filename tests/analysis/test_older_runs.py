# SPDX-License-Identifier: BSD-2-Clause
"""Runs that an older version recorded give the tables and report numbers that version made of them."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from analysis.report import make_report
from tests.analysis.older_runs import column_digests, numbers, section_numbers

RUNS = Path(__file__).parents[1] / "data" / "runs"
NAMES = sorted(file.name.removesuffix(".tar.xz") for file in RUNS.glob("*.tar.xz"))
# Sections that the report no longer has, by their heading in the version that recorded the runs: why.
DROPPED_SECTIONS: dict[str, str] = {}
# Numbers that the report no longer has, by run. Each entry needs a comment that says why.
# Files were two tables, each with the inode numbers; now the latency stands in the first.
DROPPED_NUMBERS: dict[str, Counter[str]] = {
    "btrfs-with": Counter(["257", "258", "259", "260", "261", "262", "263", "497"]),
    "ext4-perf": Counter(["12", "13", "16", "19", "20", "23", "24", "28"]),
}
# The model of a disk without elevator and cache gave way to the drives of DISK=hdd, which MODEL= asks for:
# the old one's description, then its seconds in each run and the recorded time that stood beside them.
OLD_MODEL = ("0.8", "0.8", "18", "250", "4.17", "40", "64", "7.367", "7200", "74", "8.5", "9.833")
OLD_MODEL_SECONDS = {
    "btrfs-with": ("0.00", "0.20", "0.20", "1.78", "2.84", "2.84", "3.04", "3.04"),
    "ext4-iomatrix": ("0.00", "0.00", "0.02", "0.02", "0.02", "0.02", "2.00"),
    "ext4-perf": ("0.10", "0.11", "0.11", "1.71", "1.81", "1.81", "1.82", "1.92"),
    "imported": ("0.08", "0.11", "0.11", "0.85", "1.36", "1.45", "1.47", "1.56"),
}
for _run, _seconds in OLD_MODEL_SECONDS.items():
    DROPPED_NUMBERS[_run] = DROPPED_NUMBERS.get(_run, Counter()) + Counter((*OLD_MODEL, *_seconds))


def unpack(name: str, folder: Path) -> Path:
    """The recorded run in a folder of its own, as an ordinary user has it: without reports and tables."""
    with tarfile.open(RUNS / f"{name}.tar.xz") as archive:
        archive.extractall(folder)  # our own archive: nothing to filter
    return folder / name


def expected(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RUNS / f"{name}.json").read_text())
    return loaded


@pytest.mark.usefixtures("words_only")
@pytest.mark.parametrize("name", NAMES)
def test_older_run_gives_the_same_tables_and_numbers(tmp_path: Path, name: str) -> None:
    run, old = unpack(name, tmp_path), expected(name)
    make_report(run)
    for table, then in old["tables"].items():
        now = column_digests(run / "tables" / f"{table}.parquet")
        assert now["rows"] == then["rows"], table
        differing = {c for c, digest in then["columns"].items() if now["columns"].get(c) != digest}
        assert not differing, f"{name}: columns of {table} that differ: {differing}"
    kept = {heading: found for heading, found in old["report"].items() if heading not in DROPPED_SECTIONS}
    then_numbers = numbers(kept) - DROPPED_NUMBERS.get(name, Counter())
    now_numbers = numbers(section_numbers((run / "detail.txt").read_text()))
    # a new section may add numbers; one that changed is missing
    assert not then_numbers - now_numbers, f"{name}: numbers that detail.txt no longer has"


@pytest.mark.usefixtures("words_only")
def test_older_tables_without_raw_give_the_same_report(tmp_path: Path) -> None:
    run = unpack("btrfs-with", tmp_path)
    make_report(run)
    report = (run / "report.txt").read_bytes()
    shutil.rmtree(run / "raw")
    make_report(run)
    assert (run / "report.txt").read_bytes() == report


def test_every_recorded_run_has_expected_results() -> None:
    assert sorted(file.stem for file in RUNS.glob("*.json")) == NAMES and len(NAMES) >= 4
    assert sum(file.stat().st_size for file in RUNS.iterdir()) < 1_000_000
    listed = (RUNS / "README.md").read_text()
    assert all(f"| {name} |" in listed for name in NAMES)
