# SPDX-License-Identifier: BSD-2-Clause
"""First screens that begin with a warning, and those of runs without a ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.report import make_report
from tests.analysis.synthetic import Spec, decaying_ext3
from tests.analysis.test_critical_path import fsync_of_a_child, write


def killed(run: dict[str, Any]) -> None:
    run["state"] = "killed"


def emulated(run: dict[str, Any]) -> None:
    run["machine"]["virtualization"] = "qemu (TCG)"


def failed(run: dict[str, Any]) -> None:
    run["workload"] |= {
        "exit_status": 3,
        "output": {"bytes": 20, "file": "raw/workload.out", "last_lines": ["no such file", "gave up"]},
    }


def imported(run: dict[str, Any]) -> None:
    run["imported"] = {"format": "blktrace"}


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (killed, "!! this run's state is 'killed': numbers cover the time until"),
        (emulated, "!! emulated CPUs (QEMU TCG): times and rates mean little"),
        (failed, "!! the workload failed with exit status 3"),
        (imported, "!! imported from blktrace: requests alone"),
    ],
)
def test_screen_begins_with_what_must_be_known(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], warning: str
) -> None:
    spec = decaying_ext3(13, 40)
    change(spec.run)
    terminal = make_report(spec.write(tmp_path / "run"))
    lines = (tmp_path / "run" / "answer.txt").read_text().splitlines()
    assert lines[1].startswith(warning) and len(lines) <= 40
    # what a command printed stands above the screen, on the terminal alone
    assert (change is failed) == ("gave up" in terminal.partition("Seekmeter: ")[0])
    assert "gave up" not in "\n".join(lines)


def test_lossy_run_says_what_was_lost(tmp_path: Path) -> None:
    spec = decaying_ext3(13, 40)
    spec.losses = {
        "collectors": {"calls": {"state": "on", "seen": 100, "recorded": 60, "lost": {"ring": 40}}},
        "complete": True,
    }
    make_report(spec.write(tmp_path / "run"))
    screen = (tmp_path / "run" / "answer.txt").read_text()
    assert "!! calls: 40 lost of 100 seen" in screen and "LOST OR OFF  " in screen


def test_short_run_is_told_to_be_longer(tmp_path: Path) -> None:
    make_report(write(tmp_path / "run", fsync_of_a_child()))
    lines = (tmp_path / "run" / "answer.txt").read_text().splitlines()
    assert any(line.startswith("!! The workload ran 0.90 s: too short to tell.") for line in lines)
    assert not any(line[:1].isdigit() and "too short" in line for line in lines)
    (longer,) = [line for line in lines if line.endswith("    long enough")]
    assert longer.startswith("NEXT         make trace ") and "SCALE=" in longer


def test_run_without_threads_says_what_to_record(tmp_path: Path) -> None:
    make_report(decaying_ext3(13, 40).write(tmp_path / "run"))
    screen = (tmp_path / "run" / "answer.txt").read_text()
    assert "WHERE THE TIME WENT: not known: sched and threads did not record" in screen
    assert "make trace FS=ext3 WL=compilebench    with threads and switches" in screen


def test_imported_run_is_not_told_to_record(tmp_path: Path) -> None:
    spec = Spec(run=decaying_ext3(2, 2).run)
    imported(spec.run)
    make_report(spec.write(tmp_path / "run"))
    _, _, next_ = (tmp_path / "run" / "answer.txt").read_text().partition("NEXT ")
    assert next_ and "make trace" not in next_
