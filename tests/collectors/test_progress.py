# SPDX-License-Identifier: BSD-2-Clause
"""Progress: which phase runs now and for how long, and an estimate that learns from the phases done."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from collectors.trace import past
from collectors.trace.past import Past
from collectors.trace.progress import Estimate, Phases, Progress, duration

SECOND = 1_000_000_000


def write(path: Path, *rows: Any) -> None:
    with path.open("a") as file:
        for row in rows:
            file.write((row if isinstance(row, str) else json.dumps(row)) + "\n")


def begun(name: str, at_s: float) -> dict[str, Any]:
    return {"name": name, "start_ns": round(at_s * SECOND)}


def ended(name: str, start_s: float, end_s: float) -> dict[str, Any]:
    return {**begun(name, start_s), "end_ns": round(end_s * SECOND), "ops": 1, "bytes": 0}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """phases.jsonl, with a phase of the session's own, and phases_begun.jsonl."""
    write(tmp_path / "ended", ended("mkfs", 0, 1))
    (tmp_path / "begun").touch()
    return tmp_path / "ended", tmp_path / "begun"


def test_running_phase_is_shown(files: tuple[Path, Path]) -> None:
    said: list[str] = []
    progress = Progress(Phases(*files), Estimate(120), said.append)
    assert progress.line(0.4, 10 * SECOND) == "  workload  0 s, about 120 s to go"
    write(files[1], begun("create", 10))
    assert progress.line(34, 44 * SECOND) == "  workload  34 s, now create for 34 s, about 86 s to go"
    write(files[0], ended("create", 10, 45))
    assert progress.line(35, 45 * SECOND) == "  workload  35 s, 1 phase done, last: create, about 85 s to go"
    write(files[1], begun("mixed", 45))
    assert progress.line(130, 140 * SECOND) == (
        "  workload  130 s, now mixed for 95 s, 1 phase done, longer than the 120 s expected"
    )


def test_phase_with_a_future_start_is_not_running(files: tuple[Path, Path]) -> None:
    """A generator with a clock says beforehand when its warm-up ends."""
    phases = Phases(*files)
    write(files[1], begun("warm-up", 10), begun("measured", 15))
    phases.read_new()
    assert phases.now(12 * SECOND) == ("warm-up", 2.0)
    assert phases.now(16 * SECOND) == ("measured", 1.0)


def test_nested_and_concurrent_phases_are_shown(files: tuple[Path, Path]) -> None:
    phases = Phases(*files)
    write(files[1], begun("outer", 1), begun("inner", 2), begun("inner", 3))
    phases.read_new()
    assert phases.now(5 * SECOND) == ("inner", 2.0)
    write(files[0], ended("inner", 3, 5))
    phases.read_new()
    assert phases.now(5 * SECOND) == ("inner", 3.0)
    write(files[0], ended("inner", 2, 6), ended("never begun", 2, 6))
    phases.read_new()
    assert phases.now(6 * SECOND) == ("outer", 5.0)
    assert phases.done == [("inner", 2.0), ("inner", 4.0), ("never begun", 4.0)]


def test_partial_lines_are_joined_and_bad_lines_skipped(files: tuple[Path, Path]) -> None:
    phases = Phases(*files)
    for path in files:
        write(path, "{", "5", '{"name": 5}', "[" * 5000, '{"name":"\\u001b[31mx","start_ns":"y","end_ns":[]}')
    with files[1].open("a") as file:
        file.write('{"name":"cr')
        file.flush()
        phases.read_new()
        assert phases.done == [("[31mx", 0.0)]
        assert phases.now(5 * SECOND) is None
        file.write('eate","start_ns":1000000000}\n')
    phases.read_new()
    assert phases.now(5 * SECOND) == ("create", 4.0)
    with files[0].open("a") as file:
        file.write("x" * (3 << 20) + "\n")  # one line, longer than is read at once
    write(files[0], ended("create", 1, 2))
    for _ in range(5):
        phases.read_new()
    assert phases.done[-1] == ("create", 1.0)


def test_replaced_phases_file_is_not_read(files: tuple[Path, Path], tmp_path: Path) -> None:
    phases = Phases(*files)
    (tmp_path / "secret").write_text(json.dumps(begun("root's", 1)) + "\n")
    for path in files:
        path.unlink()
        path.symlink_to(tmp_path / "secret")
    phases.read_new()
    assert phases.now(5 * SECOND) is None and phases.done == []
    with pytest.raises(OSError):
        Phases(*files)


BEFORE = Past("run", 100.0, (("create", 20.0), ("mixed", 60.0), ("delete", 10.0)))


@pytest.mark.parametrize(
    ("elapsed_s", "done", "now", "left_s"),
    [
        (0, [], None, 100),  # 90 in phases, 10 between them
        (5, [], ("create", 5), 15 + 70 + 10 * 70 / 90),
        (20, [("create", 20.0)], ("mixed", 0), 60 + 10 + 10 * 10 / 90),
        (40, [("create", 40.0)], ("mixed", 0), 2 * (60 + 10 + 10 * 10 / 90)),  # twice as slow until now
        (10, [("create", 10.0)], ("mixed", 10), 30 - 10 + 0.5 * (10 + 10 * 10 / 90)),
        (
            300,
            [("create", 40.0)],
            ("mixed", 260),
            2 * (10 + 10 * 10 / 90),
        ),  # that one is late: the rest is known
        (100, [("create", 20.0), ("mixed", 60.0)], ("delete", 20), 0),
        (
            1,
            [("create", 0.001)],
            None,
            0.1 * (70 + 10 * 70 / 90),
        ),  # not believed to be ten thousand times faster
        (9, [("another", 9.0)], ("a third", 1), 100),
    ],
)
def test_estimate_uses_the_phases_done(
    elapsed_s: float, done: list[tuple[str, float]], now: tuple[str, float] | None, left_s: float
) -> None:
    assert Estimate(1.0, BEFORE).remaining_s(elapsed_s, done, now) == pytest.approx(left_s)


def test_estimate_without_phases_uses_the_total_time() -> None:
    assert Estimate(None).remaining_s(5, [], None) is None
    assert Estimate(30).remaining_s(5, [("x", 1.0)], None) == 25
    assert Estimate(None, Past("run", 40.0, ())).remaining_s(5, [], None) == 35
    assert Estimate(None, Past("run", 40.0, ())).expected_s == 40


def run_in(runs: Path, name: str, **facts: Any) -> dict[str, Any]:
    """A run that took 10 s in two phases, with what differs."""
    (runs / name / "raw").mkdir(parents=True)
    whole: dict[str, Any] = {
        "state": "complete",
        "workload": {"name": "filemark", "variant": None, "scale": "quick", "threads": 8, "exit_status": 0},
        "words": {"WL": "filemark"},
        "machine": {"cpus": 2},
        "filesystem": {"name": "ext4"},
        "device": {"kind": "file"},
        "clock": {"workload_start_ns": 10 * SECOND, "workload_end_ns": 20 * SECOND},
    }
    for key, value in facts.items():
        whole[key] = {**whole[key], **value} if isinstance(value, dict) else value
    (runs / name / "run.json").write_text(json.dumps(whole))
    write(runs / name / "raw/phases.jsonl", ended("mkfs", 1, 2), ended("create", 10, 13), "nonsense")
    write(runs / name / "raw/phases.jsonl", ended("verify", 13, 20), ended("sync", 20.1, 21))
    return whole


def test_run_before_is_the_newest_similar_run(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    wanted = run_in(runs, "1-like")
    run_in(runs, "2-like")
    run_in(runs, "3-on-another", filesystem={"name": "xfs"})
    run_in(runs, "4-interrupted", state="interrupted")
    run_in(runs, "4-failed", workload={"exit_status": 1})
    run_in(runs, "5-other-scale", workload={"scale": "default"})
    run_in(runs, "6-other-words", words={"ARGS": "-n 5"})
    run_in(runs, "6-emulated", machine={"vm": {"accel": "tcg"}})
    run_in(runs, "7-now", state="running")
    (runs / "latest").symlink_to("7-now")
    (runs / "8-empty").mkdir()
    (runs / "9-fifo").mkdir()
    os.mkfifo(runs / "9-fifo/run.json")
    assert past.find(runs, wanted) == Past("2-like", 10.0, (("create", 3.0), ("verify", 7.0)))
    found = past.find(runs, {**wanted, "filesystem": {"name": "btrfs"}})
    assert found is not None and found.name == "3-on-another"  # the newest on any
    assert past.find(runs, {**wanted, "workload": {"name": "another"}}) is None
    assert past.find(tmp_path / "nowhere", wanted) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "[" * 5000, '{"clock": 5}', '{"state": "complete", "workload": []}']
)
def test_broken_runs_are_not_used_for_estimates(tmp_path: Path, text: str) -> None:
    wanted = run_in(tmp_path, "1")
    (tmp_path / "1/run.json").write_text(text)
    assert past.find(tmp_path, wanted) is None


def test_durations_are_readable() -> None:
    said = [duration(seconds) for seconds in (0.2, 299.4, 300, 310, 3599, 3600, 7512)]
    assert said == ["0 s", "299 s", "5 min 0 s", "5 min 10 s", "59 min 59 s", "1 h 0 min", "2 h 5 min"]


def test_recording_is_shown_in_a_long_run(files: tuple[Path, Path]) -> None:
    growth = "recording 3.1M/s, 1.2G of 20G; full in 1 h 40 min"
    said: list[str] = []
    progress = Progress(Phases(*files), Estimate(120), said.append, lambda: growth)
    assert progress.line(29, 10 * SECOND) == "  workload  29 s, about 91 s to go"
    assert progress.line(31, 10 * SECOND) == f"  workload  31 s, about 89 s to go, {growth}"
    write(files[1], begun("a phase with a name that is rather long", 10))
    assert len(line := progress.line(31, 44 * SECOND)) <= 110 and "recording" not in line
