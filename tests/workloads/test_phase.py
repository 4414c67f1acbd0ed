# SPDX-License-Identifier: BSD-2-Clause
"""phase NAME COMMAND: the command's time is a phase, and its end is the command's own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.workloads.programs import lines, run

PHASE = Path(__file__).resolve().parents[2] / "build/generators/phase"


def test_the_command_runs_and_its_time_is_a_phase(tmp_path: Path) -> None:
    file = tmp_path / "phases"
    before = time.monotonic_ns()
    done = run(PHASE, "two words", "sh", "-c", 'sleep 0.2; echo "$1"', "sh", "a  b", SEEKMETER_PHASES=file)
    after = time.monotonic_ns()
    assert (done.returncode, done.stdout, done.stderr) == (0, "a  b\n", "")
    (line,) = lines(file)
    assert line["name"] == "two words"
    assert before < line["start_ns"] < line["start_ns"] + 200_000_000 <= line["end_ns"] < after
    run(PHASE, "next", "true", SEEKMETER_PHASES=file)
    assert [one["name"] for one in lines(file)] == ["two words", "next"]


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("kill -TERM $$", 128 + 15)])
def test_failing_command_is_a_phase_too(tmp_path: Path, command: str, status: int) -> None:
    file = tmp_path / "phases"
    assert run(PHASE, "fails", "sh", "-c", command, SEEKMETER_PHASES=file).returncode == status
    assert [one["name"] for one in lines(file)] == ["fails"]


def test_without_a_session_the_command_just_runs() -> None:
    assert run(PHASE, "alone", "echo", "ran").stdout == "ran\n"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "give phase NAME COMMAND"),
        (["name"], 2, "give phase NAME COMMAND"),
        (["--help", "true"], 2, "give phase NAME COMMAND"),
        (["", "true"], 2, "has not 1 to 60 bytes"),
        (["x" * 61, "true"], 2, "has not 1 to 60 bytes"),
        (['a"b', "true"], 2, "a quote, a backslash or a control character"),
        (["a\\", "true"], 2, "a quote, a backslash or a control character"),
        (["a\nb", "true"], 2, "a quote, a backslash or a control character"),
        (["name", "/nonexistent/program"], 127, "not found; install it"),
        (["name", "/etc/passwd"], 1, "cannot be run: permission denied"),
    ],
)
def test_unusable_command_is_refused_without_a_phase(
    tmp_path: Path, words: list[str], status: int, message: str
) -> None:
    file = tmp_path / "phases"
    done = run(PHASE, *words, SEEKMETER_PHASES=file)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("seekmeter: phase: ") or done.stderr.startswith("seekmeter: /etc/passwd: ")
    assert message in done.stderr
    assert not file.exists() or file.read_bytes() == b""


def test_unwritable_phase_fails_the_run() -> None:
    done = run(PHASE, "name", "true", SEEKMETER_PHASES="/dev/full")
    assert done.returncode == 1
    assert "cannot write the phase: no space left" in done.stderr
