# SPDX-License-Identifier: BSD-2-Clause
"""Generators say which phase begins, so that progress can say which one runs now."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.programs import lines, run
from workloads.plan.planner import TREE

GENERATORS = TREE / "build/generators"
DATASETS = TREE / "workloads/datasets"
# A generator, and words that make it do a little of all it does.
SMALL: dict[str, list[Any]] = {
    "aim7": ["-m", DATASETS / "aim7-shared.mix", "-n", 1, "-N", 2, "-l", 2, "-r", 0],
    "createdelete": ["-t", 2, "-n", 200, "-o", 200, "-f", 0],
    "dbench": ["-T", 5, "-t", 1],
    "filemark": ["-t", 2, "-n", 100, "-w", 1, "-m", 1, "-p", 1, "-P", 1],
    "fio_phases": ["--name=x", "--rw=randread", "--size=1M", "--io_size=1M", "--output={raw}/fio.json"],
    "iomatrix": ["-f", 4, "-F", 16, "-x", 4, "-m", 0],
    "manyfiles": ["-n", 50, "-b", 512],
    "pgmeter": [
        *("-M", DATASETS / "pgmeter.mixes", "-J", "{raw}", "-x", "seqread8,oltp", "-q", 1, "-m", 8),
        *("-w", 1, "-l", 1, "-a", 1),
    ],
    "phase": ["two words", "true"],
    "postmark": ["-n", 100, "-o", 100],
    "webcache": ["-m", 1, "-f", 10, "-l", 2, "-t", 20, "-d", 2, "--stream"],
}


@pytest.mark.parametrize("name", SMALL)
def test_begin_of_each_phase_is_reported(name: str, tmp_path: Path) -> None:
    work, raw = tmp_path / "work", tmp_path / "raw"
    work.mkdir()
    raw.mkdir()
    words = [str(word).replace("{raw}", str(raw)) for word in SMALL[name]]
    before_ns = time.monotonic_ns()
    done = run(
        Path("/usr/bin/env"), "-C", work, GENERATORS / name, *words, SEEKMETER_DIR=work,
        SEEKMETER_PHASES=raw / "phases", SEEKMETER_PHASES_BEGUN=raw / "begun", SEEKMETER_SCRATCH=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    begun, ended = lines(raw / "begun"), sorted(lines(raw / "phases"), key=lambda one: int(one["start_ns"]))
    assert len(ended) > 0
    said = [one["name"] for one in begun]
    if name == "fio_phases":
        assert said == ["layout", "measured"]
    names = [one["name"] for one in ended]
    assert said == names or name == "dbench"  # whose warm-up may be over before it says anything
    for phase in ended:
        starts = [one["start_ns"] for one in begun if one["name"] == phase["name"]]
        assert starts and before_ns < min(starts) <= phase["end_ns"]


def test_full_disk_ends_no_workload(tmp_path: Path) -> None:
    done = run(GENERATORS / "phase", "x", "echo", "ran", SEEKMETER_PHASES_BEGUN="/dev/full")
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_unopenable_file_is_reported(tmp_path: Path) -> None:
    done = run(GENERATORS / "phase", "x", "true", SEEKMETER_PHASES_BEGUN=tmp_path / "no/such")
    assert done.returncode == 1
    assert "cannot open the file of begun phases ($SEEKMETER_PHASES_BEGUN): no such file" in done.stderr
