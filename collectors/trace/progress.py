# SPDX-License-Identifier: BSD-2-Clause
"""What the user sees while the workload runs: the phase that runs now, for how long it has, what remains."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.host.console import show, tell
from collectors.trace.past import Past

_READ_BYTES = 1 << 20  # of a file, at a look
_NAME_LETTERS = 40
_LINE_LETTERS = 110
# By how much a run is thought to be slower or faster than the one before, and after how long that is known.
_RATIO_MOST = 10.0
_RATIO_SECONDS = 1.0


@dataclass(frozen=True)
class Estimate:
    """What is expected of the workload before it runs: of the catalog, or of the run before."""

    seconds: float | None  # the catalog's
    past: Past | None = None

    def remaining_s(
        self, elapsed_s: float, done: Sequence[tuple[str, float]], now: tuple[str, float] | None
    ) -> float | None:
        """Seconds that it will take; 0 or less: it takes longer than was expected; None: nobody knows.

        done: the phases that are over, and the seconds each took; now: the one that runs, and for how long.
        Where there is a run before, it is what that one's other phases took, times how much slower or faster
        the phases until now were.
        """
        if self.past is None:
            return None if self.seconds is None else self.seconds - elapsed_s
        times: dict[str, list[float]] = {}
        for name, seconds in self.past.phases:
            times.setdefault(name, []).append(seconds)
        known_s = took_s = 0.0
        for name, seconds in done:
            if times.get(name):
                known_s += times[name].pop(0)
                took_s += seconds
        ratio = took_s / known_s if known_s >= _RATIO_SECONDS else 1.0
        ratio = min(max(ratio, 1 / _RATIO_MOST), _RATIO_MOST)
        left_s = 0.0
        if now is not None and times.get(now[0]):
            left_s = max(times[now[0]].pop(0) * ratio - now[1], 0.0)
        to_come_s = sum(seconds for of_name in times.values() for seconds in of_name)
        whole_s = sum(seconds for _, seconds in self.past.phases)
        if whole_s <= 0:  # it marks no phases
            return self.past.seconds - elapsed_s
        between_s = max(self.past.seconds - whole_s, 0.0) * to_come_s / whole_s
        return left_s + (to_come_s + between_s) * ratio

    @property
    def expected_s(self) -> float | None:
        """How long all of it was expected to take."""
        return self.seconds if self.past is None else self.past.seconds


@dataclass
class _Lines:
    """A growing file of JSON objects, one a line. Kept open: its folder is the user's, who may replace it."""

    path: Path
    at: int = 0
    file: int = field(init=False)

    def __post_init__(self) -> None:
        self.file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.at = os.fstat(self.file).st_size  # what is there is not of the workload

    def new(self) -> list[dict[str, Any]]:
        """Those that came since the last time, whole ones only; what is none of it is left out."""
        text = os.pread(self.file, _READ_BYTES, self.at)
        whole, newline, _ = text.rpartition(b"\n")
        if not newline and len(text) == _READ_BYTES:  # no line of ours: get over it
            whole = text
        self.at += len(whole) + len(newline)
        found = []
        for line in whole.splitlines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and isinstance(value.get("name"), str):
                found.append(value)
        return found


class Phases:
    """The phases of the workload as far as they are known: those that are over, and the one that runs now."""

    def __init__(self, ended: Path, begun: Path) -> None:
        self._ended, self._begun = _Lines(ended), _Lines(begun)
        self._open: list[tuple[str, int]] = []  # name and start, the last one begun last
        self.done: list[tuple[str, float]] = []  # name and seconds

    def look(self) -> None:
        """Take in what was written since the last time."""
        over: Counter[str] = Counter()
        for line in self._ended.new():
            name, start, end = _shown(line["name"]), line.get("start_ns"), line.get("end_ns")
            took_ns = end - start if isinstance(start, int) and isinstance(end, int) else 0
            self.done.append((name, max(took_ns, 0) / 1e9))
            over[name] += 1
        for line in self._begun.new():
            start = line.get("start_ns")
            self._open.append((_shown(line["name"]), start if isinstance(start, int) else 0))
        for at, (name, _) in reversed(list(enumerate(self._open))):
            if over[name] > 0:
                over[name] -= 1
                del self._open[at]

    def now(self, now_ns: int) -> tuple[str, float] | None:
        """The phase that began last and is not over, and for how many seconds it has run."""
        for name, start_ns in reversed(self._open):
            if start_ns <= now_ns:
                return name, (now_ns - start_ns) / 1e9
        return None


def _shown(name: str) -> str:
    return "".join(c for c in name[:_NAME_LETTERS] if c.isprintable())


def duration(seconds: float) -> str:
    """134 s, 5 min 10 s, 2 h 5 min: rounded for people."""
    whole = round(seconds)
    if whole < 300:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Progress:
    """One line, up to date on a terminal, sparse in a log."""

    def __init__(self, phases: Phases, estimate: Estimate, log: Callable[[str], None]) -> None:
        self._phases = phases
        self._estimate = estimate
        self._log = log
        self._tty = sys.stderr.isatty()
        self._said_seconds = 0.0

    def __call__(self, seconds: float) -> None:
        """Show that the workload has run for so many seconds."""
        every = 1.0 if self._tty else 10.0
        if seconds - self._said_seconds < every:
            return
        self._said_seconds = seconds
        line = self.line(seconds, time.monotonic_ns())
        if self._tty:
            show(line)
        else:
            tell(line)
        self._log(line)

    def line(self, seconds: float, now_ns: int) -> str:
        """The line, which says what runs now first, and what remains."""
        self._phases.look()
        now, done = self._phases.now(now_ns), self._phases.done
        remains = ""
        left_s = self._estimate.remaining_s(seconds, done, now)
        if left_s is not None and left_s >= 0.5:
            remains = f", about {duration(left_s)} to go"
        elif left_s is not None and seconds > (self._estimate.expected_s or 0) + 1:
            remains = f", longer than the {duration(self._estimate.expected_s or 0)} expected"
        running = f", now {now[0]} for {duration(now[1])}" if now is not None else ""
        over = f", {len(done)} phase{'s' if len(done) > 1 else ''} done" if done else ""
        if done and now is None:
            over += f", last: {done[-1][0]}"
        return f"  {'workload':<9} {duration(seconds)}{running}{over}{remains}"[:_LINE_LETTERS]

    def end(self) -> None:
        """Leave the line."""
        if self._tty and self._said_seconds:
            show("")
