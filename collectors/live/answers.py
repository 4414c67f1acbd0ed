# SPDX-License-Identifier: BSD-2-Clause
"""Answers of windows: analysis makes one at a time, in a process of low priority, while recording goes on."""

from dataclasses import dataclass

from collectors.host.background import Background
from collectors.live.windows import Window
from collectors.privilege.sudo import command_of

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
        self._maker = Background()
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
        made = self._maker.poll()
        if made is None or self._window is None:
            return None
        answer = Answer(self._window, _lines(*made))
        self._window = None
        self._start()
        return answer

    def last(self) -> Answer | None:
        """Wait for the answer that is being made, and return it; those that were not begun are left out."""
        self._next = None
        self._maker.wait()
        return self.poll()

    def close(self) -> None:
        """End what runs."""
        self._maker.close()

    def _start(self) -> None:
        if self._maker.runs or self._next is None:
            return
        self._window, self._next = self._next, None
        self._maker.start([*self._command, str(self._window.path)])


def _lines(code: int, text: str) -> list[str]:
    lines = text.split("\n")
    return lines if code == 0 else [f"no answer (exit code {code}):", *lines[-5:]]
