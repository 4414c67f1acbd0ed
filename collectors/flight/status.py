# SPDX-License-Identifier: BSD-2-Clause
"""The line of a running watch: what is normal here, by the last seconds, and how full the ring is."""

import sys
import time
from pathlib import Path

from collectors.flight.lines import FlightLines, last_second
from collectors.host.console import show, tell
from workloads.system.units import show_seconds, show_size

_LETTERS = 110
_ELSEWHERE_SECONDS = 60.0  # into a file or pipe


class Status:
    """Rewritten each second on a terminal, printed each minute elsewhere."""

    def __init__(self, ring: Path, lines: FlightLines, times: int) -> None:
        self._ring, self._lines, self._times = ring, lines, times
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
            show(text)
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
        second = last_second(self._ring)
        parts = [show_seconds(seconds)]
        if second:
            requests = second.get("reads", 0) + second.get("writes", 0)
            moved = second.get("read_bytes", 0) + second.get("write_bytes", 0)
            parts.append(f"{requests:,} requests/s, {moved / 1e6:,.1f} MB/s")
            if requests:
                mean_ms = second.get("mean_q2c_ns", 0) / 1e6
                most_ms = second.get("max_q2c_ns", 0) / 1e6
                parts.append(f"Q2C mean {mean_ms:,.1f} max {most_ms:,.1f} ms")
            if "kept_for_ns" in second:
                parts.append(
                    f"ring {second['kept_for_ns'] / 1e9:.0f} s {show_size(second.get('ring_bytes', 0))}"
                )
        parts.append(f"{len(self._lines.fired)} of {self._times} triggers")
        if waiting:
            parts.append(f"keeping {waiting}")
        return f"  {'watch':<9} {'; '.join(parts)}"[:_LETTERS]
