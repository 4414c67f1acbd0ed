# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps whose runs are made by a stub in milliseconds, for tests of the driver without root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.collectors.sessions import TREE, listen_to_interrupts

_DRIVER = TREE / "tests/collectors/programs/sweep_driver.py"
WORDS = ("FS=ext4", "CMD=true", "SIZE=64M 65M 66M", "REPS=3", "ORDER=1")
CONFIGURATIONS, REPS = 3, 3


@dataclass
class StubSweeps:
    """A folder with runs/ of its own, the stub's journal, and what the stub is to do."""

    folder: Path

    def take(self, seconds: float) -> None:
        """Set how long each run takes."""
        (self.folder / "seconds").write_text(str(seconds))

    def fail(self, *tasks: str) -> None:
        """Let the next runs of these tasks fail; a task may be named more than once."""
        (self.folder / "fails").write_text("\n".join(tasks))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the driver, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, str(_DRIVER), str(self.folder), *(words or WORDS)],
            cwd=TREE,
            env={**os.environ, "PYTHONPATH": str(TREE)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=listen_to_interrupts,  # noqa: PLW1509 (no threads here)
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the driver to its end."""
        process = self.start(*words)
        out, errors = process.communicate(timeout=120)
        assert "Traceback" not in errors, errors
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    @property
    def sweeps(self) -> list[Path]:
        """The sweep directories, the oldest first."""
        return sorted((self.folder / "runs").glob("*-sweep-*"))

    @property
    def sweep(self) -> Path:
        """The only sweep directory."""
        (sweep,) = self.sweeps
        return sweep

    @property
    def journal(self) -> list[tuple[str, str]]:
        """What the stub did: start, end, failed, interrupted, overlap; and the task."""
        file = self.folder / "journal"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines]

    def count(self, event: str) -> Counter[str]:
        """Return how often each task has this event in the journal."""
        return Counter(task for kind, task in self.journal if kind == event)


def plan_of(sweep: Path) -> dict[str, Any]:
    """Return sweep.json."""
    value: dict[str, Any] = json.loads((sweep / "sweep.json").read_text())
    return value


def outcomes(sweep: Path) -> dict[str, dict[str, Any]]:
    """Return every task.json by the name of its run directory."""
    return {file.parent.name: json.loads(file.read_text()) for file in (sweep / "runs").glob("*/task.json")}


def all_tasks(configurations: int = CONFIGURATIONS, reps: int = REPS) -> set[str]:
    """Return the names of all tasks of a sweep."""
    runs = {f"c{one:02}-r{rep:02}" for one in range(1, configurations + 1) for rep in range(1, reps + 1)}
    return runs | {"anchor-first", "anchor-last"}
