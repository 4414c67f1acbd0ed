# SPDX-License-Identifier: BSD-2-Clause
"""The screens of a live watch: on a terminal each replaces the one before, else one follows another.

A terminal that is smaller than a screen shows its upper left part, and the last line says how much is cut.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

WIDTH, HEIGHT = 80, 24  # of a terminal that does not tell
LINE = "-" * WIDTH


class Screen:
    """Where screens are shown."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file or sys.stdout
        self._lines: list[str] = []
        self._status = ""
        self._live: Live | None = None
        self.is_gone = False  # nobody reads any more: a closed pipe or terminal
        if self._file.isatty():
            console = Console(file=self._file, highlight=False, markup=False, emoji=False)
            self._live = Live(
                console=console, screen=True, auto_refresh=False, get_renderable=lambda: self._drawn(console)
            )
            self._set_size()

    def __enter__(self) -> "Screen":
        if self._live is not None:
            with self._noticing():
                self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back, and leave the last screen on it, uncut."""
        if self._live is not None:
            with self._noticing():
                self._live.stop()
            self._live = None
            if self._lines:
                self._print(self._lines)

    def show(self, lines: Sequence[str]) -> None:
        """Show a screen."""
        is_first = not self._lines
        self._lines = list(lines)
        if self._live is not None:
            self._refresh()
        else:
            self._print(self._lines if is_first else [LINE, *self._lines])

    def say(self, status: str) -> None:
        """On a terminal, replace the last line."""
        self._status = status
        self._refresh()

    def _refresh(self) -> None:
        if self._live is not None:
            with self._noticing():
                self._set_size()
                self._live.refresh()

    def _set_size(self) -> None:
        """Tell rich the terminal's size, which may have changed; rich looks at others than this file, too."""
        if self._live is not None:
            width, height = os.get_terminal_size(self._file.fileno())
            self._live.console.size = ConsoleDimensions(width or WIDTH, height or HEIGHT)

    def _drawn(self, console: Console) -> Text:
        width, height = console.size
        return Text(
            "\n".join(fitted(self._lines, self._status, width, height)), no_wrap=True, overflow="crop"
        )

    def _print(self, lines: Sequence[str]) -> None:
        with self._noticing():
            print("\n".join(lines), file=self._file, flush=True)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Notice that nobody reads what is written in the block."""
        try:
            yield
        except OSError:
            self.is_gone = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())  # what is left to be flushed


def fitted(lines: Sequence[str], status: str, width: int, height: int) -> list[str]:
    """Return what fits on a terminal: the upper left part of the lines, and the status in the last line."""
    room = max(height - 1, 1)
    below, wide = max(len(lines) - room, 0), any(len(line) > width for line in lines)
    cut = [f"{below} more lines"] if below else []
    cut += [f"{max(map(len, lines))} columns"] if wide else []
    if cut:
        status = f"[cut: {', '.join(cut)}] {status}"
    shown = [line[:width] for line in lines[:room]]
    shown += [""] * (room - len(shown))
    return [*shown, status[:width]]
