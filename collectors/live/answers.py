# SPDX-License-Identifier: BSD-2-Clause
"""Answers of windows: analysis makes one at a time, in a process of low priority, while recording goes on."""

import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass

from collectors.live.windows import Window
from collectors.privilege.sudo import command_of
from workloads.system.visible import visible

_BYTES_MOST = 64 << 10  # of the text; an answer has at most 40 lines of 80 characters
_PATIENCE_SECONDS = 5.0
_PRIORITY = ("nice", "-n", "19")  # the watched programs come first
ANSWER = (*_PRIORITY, *command_of("analysis", "answer"))


@dataclass(frozen=True)
class Answer:
    """The first screen of a window, or why there is none."""

    window: Window
    lines: list[str]


class Answers:
    """Makes the answer of the newest window that has ended; the ones that it has no time for are skipped."""

    def __init__(self, command: tuple[str, ...] = ANSWER) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._text = tempfile.TemporaryFile()  # noqa: SIM115 (of one answer after the other)
        self._window: Window | None = None
        self._next: Window | None = None
        self.skipped = 0

    @property
    def window(self) -> Window | None:
        """The window that is being read."""
        return self._window

    def ask(self, window: Window) -> None:
        """Ask for the answer of a window."""
        self.skipped += self._next is not None
        self._next = window
        self._start()

    def poll(self) -> Answer | None:
        """Return an answer that is there now."""
        if self._process is None or self._window is None or self._process.poll() is None:
            return None
        answer = Answer(self._window, self._read(self._process.returncode))
        self._process = self._window = None
        self._start()
        return answer

    def last(self) -> Answer | None:
        """Wait for the answer that is being made, and return it; those that were not begun are left out."""
        self._next = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_SECONDS)
        return self.poll()

    def close(self) -> None:
        """End what runs."""
        if self._process is not None:
            # Its own group, as ^C on a terminal: half-written files are removed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._text.close()

    def _start(self) -> None:
        if self._process is not None or self._next is None:
            return
        self._window, self._next = self._next, None
        self._text.seek(0)
        self._text.truncate()
        self._process = subprocess.Popen(
            [*self._command, str(self._window.path)],
            stdin=subprocess.DEVNULL,
            stdout=self._text,
            stderr=self._text,
            start_new_session=True,  # ^C is for the windows: an answer that is nearly there comes still
        )

    def _read(self, code: int) -> list[str]:
        self._text.seek(0)
        text = visible(self._text.read(_BYTES_MOST).decode(errors="replace"))
        lines = text.rstrip("\n").split("\n")
        return lines if code == 0 else [f"no answer (exit code {code}):", *lines[-5:]]
