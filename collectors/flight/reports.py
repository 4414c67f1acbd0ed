# SPDX-License-Identifier: BSD-2-Clause
"""Reports of the kept runs: analysis makes one at a time, at idle priority, while recording goes on."""

import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from collectors.flight.keeper import idle
from collectors.privilege.sudo import TREE, command_of
from workloads.system.visible import visible

_BYTES_MOST = 64 << 10  # of a first screen
_PATIENCE_SECONDS = 5.0
REPORT = tuple(command_of("analysis", "report"))


class Reports:
    """Makes the report of each kept run, in order."""

    def __init__(self, command: tuple[str, ...] = REPORT) -> None:
        self._command = command
        self._waiting: list[Path] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._text = tempfile.TemporaryFile()  # noqa: SIM115 (of one report after the other)
        self._path: Path | None = None

    def ask(self, path: Path) -> None:
        """Report this run as soon as those before it are."""
        self._waiting.append(path)

    @property
    def is_idle(self) -> bool:
        """Whether no report is being made or waits."""
        return self._process is None and not self._waiting

    def poll(self) -> tuple[Path, str] | None:
        """Start the next report; return a run whose report is there, and its first screen."""
        if self._process is None:
            self._start()
            return None
        if self._process.poll() is None:
            return None
        code, path = self._process.returncode, self._path
        self._process = self._path = None
        assert path is not None
        self._text.seek(0)
        text = visible(self._text.read(_BYTES_MOST).decode(errors="replace")).rstrip("\n")
        return path, text if code == 0 else f"{text}\nno report of {path} (exit code {code})".lstrip()

    def close(self) -> None:
        """End what runs."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._text.close()

    def _start(self) -> None:
        if not self._waiting:
            return
        self._path = self._waiting.pop(0)
        self._text.seek(0)
        self._text.truncate()
        self._process = subprocess.Popen(
            [*self._command, str(self._path)],
            cwd=TREE,
            stdin=subprocess.DEVNULL,
            stdout=self._text,
            stderr=self._text,
            start_new_session=True,  # ^C ends the watch: a report that is nearly there comes still
            preexec_fn=idle,  # noqa: PLW1509 (no threads here)
        )


def is_there() -> bool:
    """Whether this tree can make reports: one that only records has no analysis."""
    return (TREE / "analysis").is_dir()
