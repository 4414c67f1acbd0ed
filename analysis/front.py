# SPDX-License-Identifier: BSD-2-Clause
"""The words by which jobs are started here, for messages and reports: make, or seekmeter (make install)."""

from pathlib import Path

_TREE = Path(__file__).resolve().parents[1]
IS_SOURCE = (_TREE / "Makefile").exists()
NAME = "make" if IS_SOURCE else "seekmeter"
# The remedy for a program of ours that is missing or broken.
REBUILD = "run make build" if IS_SOURCE else "install Seekmeter again"


def command(words: str) -> str:
    """Return the command that starts a job: "report" is make report, or seekmeter report."""
    return f"{NAME} {words}"


def shown(command: str) -> str:
    """Return a command of run.json or sweep.json, which is make's, as it is typed here."""
    return NAME + command.removeprefix("make") if command.startswith("make ") else command
