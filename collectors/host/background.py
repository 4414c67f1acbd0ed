# SPDX-License-Identifier: BSD-2-Clause
"""A program that runs beside a recording, in a session of its own, and the text that it prints.

One after the other may run. ^C on the terminal is for the recording: a text that is nearly there comes still.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence

from workloads.system.visible import visible

_BYTES_MOST = 64 << 10  # of the text; an answer has at most 40 lines of 80 characters
PATIENCE_SECONDS = 5.0


class Background:
    """Runs one program at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._text = tempfile.TemporaryFile()  # noqa: SIM115 (of one program after the other)

    @property
    def runs(self) -> bool:
        """Whether a program was started whose text is not taken yet."""
        return self._process is not None

    def start(self, command: Sequence[str], before: Callable[[], None] | None = None) -> None:
        """Start a program; none may run. before: called in the new process, such as for its priority."""
        assert self._process is None
        self._text.seek(0)
        self._text.truncate()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._text,
            stderr=self._text,
            start_new_session=True,
            preexec_fn=before,  # noqa: PLW1509 (no threads here)
        )

    def wait(self) -> None:
        """Wait for the program's end, for some seconds."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_SECONDS)

    def poll(self) -> tuple[int, str] | None:
        """Return the exit code and the text of the program if it has ended."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        self._text.seek(0)
        return code, visible(self._text.read(_BYTES_MOST).decode(errors="replace")).rstrip("\n")

    def close(self) -> None:
        """End what runs."""
        if self._process is not None:
            # Its own group, as ^C on a terminal: half-written files are removed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._text.close()
