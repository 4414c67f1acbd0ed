# SPDX-License-Identifier: BSD-2-Clause
"""What the recorder tells of its ring: flight.jsonl, read as it grows.

flight.jsonl has one JSON object a line: armed_ns, fired, kept, dropped, shortened_ns, ...; lines and keys
that are not known are left alone. A torn last line of a killed recorder is no line.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Fired:
    """A trigger fired."""

    number: int
    ns: int
    trigger: str  # the user's words
    kind: str
    value: int
    detail: str


@dataclass(frozen=True)
class Kept:
    """A window of the ring that may be kept: it is complete, or ends where recording ended."""

    number: int  # of the trigger
    from_ns: int
    to_ns: int
    segments: tuple[str, ...]
    asked_ns: int
    why_short: str  # "", ram, start


class FlightLines:
    """The lines of flight.jsonl so far."""

    def __init__(self, ring: Path) -> None:
        self._path = ring / "flight.jsonl"
        self._at = 0
        self.armed_ns: int | None = None
        self.fired: dict[int, Fired] = {}
        self.kept: dict[int, Kept] = {}
        self.dropped: dict[int, int] = {}  # segments that a window has lost for want of memory, by trigger
        self.is_stopped = False

    def read_new(self) -> list[Fired | Kept]:
        """Read the lines that have come; return the triggers and the windows among them, in order."""
        found: list[Fired | Kept] = []
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return found
        try:
            while True:
                text, newline, _ = os.pread(file, _READ_BYTES, self._at).rpartition(b"\n")
                if not newline:
                    return found
                self._at += len(text) + 1
                for line in text.split(b"\n"):
                    one = self._line(line)
                    if one is not None:
                        found.append(one)
        finally:
            os.close(file)

    def _line(self, text: bytes) -> Fired | Kept | None:
        try:
            line = json.loads(text)
            if not isinstance(line, dict):
                return None
            if "fired" in line:
                fired = _fired(line)
                self.fired[fired.number] = fired
                return fired
            if "dropped" in line:
                number = int(line["kept"])
                self.dropped[number] = self.dropped.get(number, 0) + 1
            elif "kept" in line:
                kept = _kept(line)
                self.kept[kept.number] = kept
                return kept
            elif "armed_ns" in line:
                self.armed_ns = int(line["armed_ns"])
            elif "stopped_ns" in line:
                self.is_stopped = True
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        return None


def _fired(line: dict[str, Any]) -> Fired:
    return Fired(
        int(line["fired"]),
        int(line["ns"]),
        str(line.get("trigger", "")),
        str(line.get("kind", "")),
        int(line.get("value") or 0),
        str(line.get("detail") or ""),
    )


def _kept(line: dict[str, Any]) -> Kept:
    return Kept(
        int(line["kept"]),
        int(line["from_ns"]),
        int(line["to_ns"]),
        tuple(name for name in map(str, line["segments"]) if is_segment(name)),
        int(line.get("asked_ns") or 0),
        str(line.get("why_short") or ""),
    )


def is_segment(name: str) -> bool:
    """Return whether this is the name of a segment's directory."""
    return name.startswith("segment-") and name.removeprefix("segment-").isdecimal()
