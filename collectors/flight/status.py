# SPDX-License-Identifier: BSD-2-Clause
"""The line of a running watch: what is normal here, by the last seconds, and how full the ring is."""

import os
import shutil
import sys
import time
from pathlib import Path

from collectors.flight.lines import FlightLines
from collectors.flight.seconds import Seconds
from collectors.host.console import show, tell
from workloads.system.units import show_seconds, show_size

_ELSEWHERE_SECONDS = 60.0  # into a file or pipe


class Status:
    """Rewritten each second on a terminal, printed each minute elsewhere."""

    def __init__(self, ring: Path, lines: FlightLines, times: int) -> None:
        self._ring, self._lines, self._times = ring, lines, times
        self._seconds = Seconds(ring)
        self._tty = sys.stderr.isatty()
        self._begun_s = self._shown_s = time.monotonic()
        self._is_on_screen = False

    def show(self, waiting: int) -> None:
        """Show the line if it is due. waiting: windows that are being kept."""
        now_s = time.monotonic()
        if now_s - self._shown_s < (1.0 if self._tty else _ELSEWHERE_SECONDS):
            return
        self._shown_s = now_s
        text = self.line(now_s - self._begun_s, waiting)
        if self._tty:
            show(text[: shutil.get_terminal_size().columns - 1])
            self._is_on_screen = True
        else:
            tell(text)

    def clear(self) -> None:
        """Clear it, before another line is printed."""
        if self._is_on_screen:
            show("")
            self._is_on_screen = False

    def line(self, seconds: float, waiting: int) -> str:
        """Return the line after so many seconds of the watch."""
        parts = [f"{show_seconds(seconds)}, {len(self._lines.fired)} of {self._times} triggers"]
        if waiting:
            parts.append(f"keeping {waiting}")
        parts += self._figures()
        return f"  {'watch':<9} {'; '.join(parts)}"

    def _figures(self) -> list[str]:
        self._seconds.read_new()
        figures = self._seconds.figures
        if figures is None or not figures.seconds > 0:
            return []
        last = figures.last
        length_s = max(last["length_ns"] / 1e9, 1e-3)
        now = (last["reads"] + last["writes"]) / length_s
        mb_s = (last["read_bytes"] + last["write_bytes"]) / 1e6 / length_s
        return [
            f"{now:,.0f} requests/s (mean {figures.requests / figures.seconds:,.0f}), {mb_s:,.1f} MB/s",
            f"longest {last['max_q2c_ns'] / 1e6:,.1f} ms (ever {figures.max_q2c_ns / 1e6:,.1f})",
            f"ring {show_size(self._ring_bytes())}",
        ]

    def _ring_bytes(self) -> int:
        space = os.statvfs(self._ring)
        return (space.f_blocks - space.f_bfree) * space.f_frsize
