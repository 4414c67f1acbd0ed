# SPDX-License-Identifier: BSD-2-Clause
"""The progress line while the workload runs: elapsed time, current phase, phases done, estimated rest."""

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

_READ_BYTES = 1 << 20  # of a file, per call
_NAME_LETTERS = 40
_LINE_LETTERS = 110
LONG_SECONDS = 30.0  # from here on a line says how the recording grows
# Bound of the speed ratio to the earlier run, and the phases' duration from which on the ratio is used.
_RATIO_MOST = 10.0
_RATIO_SECONDS = 1.0


@dataclass(frozen=True)
class Estimate:
    """The expected duration: the catalog's, or that of an earlier run."""

    seconds: float | None  # the catalog's
    past: Past | None = None

    def remaining_s(
        self, elapsed_s: float, done: Sequence[tuple[str, float]], now: tuple[str, float] | None
    ) -> float | None:
        """Return the remaining seconds; 0 or less: longer than expected; None: unknown.

        done: the ended phases and their seconds. now: the running phase and its seconds so far. With an
        earlier run, the rest is the duration of its other phases, times how much slower the phases so far
        were.
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
        if whole_s <= 0:  # a workload without phases
            return self.past.seconds - elapsed_s
        between_s = max(self.past.seconds - whole_s, 0.0) * to_come_s / whole_s
        return left_s + (to_come_s + between_s) * ratio

    @property
    def expected_s(self) -> float | None:
        """The expected duration of the whole workload."""
        return self.seconds if self.past is None else self.past.seconds


@dataclass
class _Lines:
    """A growing file of JSON objects, one per line; kept open, as the user may replace the path."""

    path: Path
    at: int = 0
    file: int = field(init=False)

    def __post_init__(self) -> None:
        self.file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.at = os.fstat(self.file).st_size  # lines from before the workload

    def new(self) -> list[dict[str, Any]]:
        """Return the complete new lines that are phases; other lines are skipped."""
        text = os.pread(self.file, _READ_BYTES, self.at)
        lines, newline, _ = text.rpartition(b"\n")
        if not newline and len(text) == _READ_BYTES:  # longer than any phase: skip it
            lines = text
        self.at += len(lines) + len(newline)
        phases = []
        for line in lines.splitlines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and isinstance(value.get("name"), str):
                phases.append(value)
        return phases


class Phases:
    """The workload's phases: the ended ones, and those that have begun."""

    def __init__(self, ended: Path, begun: Path) -> None:
        self._ended, self._begun = _Lines(ended), _Lines(begun)
        self._open: list[tuple[str, int]] = []  # name and start, the last one begun last
        self.done: list[tuple[str, float]] = []  # name and seconds

    def read_new(self) -> None:
        """Read the lines written since the last call."""
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
        """Return the running phase that began last, and its seconds so far; None: no phase is running."""
        for name, start_ns in reversed(self._open):
            if start_ns <= now_ns:
                return name, (now_ns - start_ns) / 1e9
        return None


def _shown(name: str) -> str:
    return "".join(c for c in name[:_NAME_LETTERS] if c.isprintable())


def duration(seconds: float) -> str:
    """Return a duration as text: 134 s, 5 min 10 s, 2 h 5 min."""
    rounded_s = round(seconds)
    if rounded_s < 300:
        return f"{rounded_s} s"
    if rounded_s < 3600:
        return f"{rounded_s // 60} min {rounded_s % 60} s"
    return f"{rounded_s // 3600} h {rounded_s % 3600 // 60} min"


class ProgressLine:
    """A line that is rewritten each second on a terminal, and printed every 10 s elsewhere."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._tty = sys.stderr.isatty()
        self._shown_seconds = 0.0

    def show(self, seconds: float, line: Callable[[], str]) -> None:
        """Show the line, if it is due. seconds: the elapsed time."""
        every = 1.0 if self._tty else 10.0
        if seconds - self._shown_seconds < every:
            return
        self._shown_seconds = seconds
        text = line()
        if self._tty:
            show(text)
        else:
            tell(text)
        self._log(text)

    def end(self) -> None:
        """Clear the line on a terminal."""
        if self._tty and self._shown_seconds:
            show("")


def with_growth(line: str, seconds: float, growth: str) -> str:
    """Return the line, of a long run with the recording's size and rate behind it, where both have space."""
    long = f"{line}, {growth}"
    return long if growth and seconds >= LONG_SECONDS and len(long) <= _LINE_LETTERS else line


class Progress:
    """The progress line of a workload."""

    def __init__(
        self,
        phases: Phases,
        estimate: Estimate,
        log: Callable[[str], None],
        growth: Callable[[], str] = lambda: "",
    ) -> None:
        """Growth: what to say of the recording's size."""
        self._phases = phases
        self._estimate = estimate
        self._line = ProgressLine(log)
        self._growth = growth

    def __call__(self, seconds: float) -> None:
        """Show the line, if it is due. seconds: the elapsed time of the workload."""
        self._line.show(seconds, lambda: self.line(seconds, time.monotonic_ns()))

    def line(self, seconds: float, now_ns: int) -> str:
        """Return the line for an elapsed time and a moment (CLOCK_MONOTONIC)."""
        self._phases.read_new()
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
        line = f"  {'workload':<9} {duration(seconds)}{running}{over}{remains}"[:_LINE_LETTERS]
        return with_growth(line, seconds, self._growth())

    def end(self) -> None:
        """Clear the line on a terminal."""
        self._line.end()
