# SPDX-License-Identifier: BSD-2-Clause
"""How long the same workload took the last time, phase by phase: runs/ tells it, for this one's estimate.

Only the numbers are used, and whatever cannot be read or understood is no past.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RUNS_MOST = 100  # the newest ones
_FILE_BYTES_MOST = 4 << 20


@dataclass(frozen=True)
class Past:
    """A run of the same workload that came to its end."""

    name: str  # of its directory
    seconds: float
    phases: tuple[tuple[str, float], ...]  # name and seconds, in their order


def find(runs: Path, facts: Mapping[str, Any]) -> Past | None:
    """Return the newest run in a directory that is like the one of these facts (run.json's), if any is.

    On the same file system and kind of disk if there is one, else on any.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return None
    wanted, like = _key(facts), _place(facts)
    other: Past | None = None
    for name in reversed(names[-_RUNS_MOST:]):
        there = _load(runs / name / "run.json")
        if there is None or _key(there) != wanted:
            continue
        past = _past(name, there, runs / name / "raw/phases.jsonl")
        if past is not None and _place(there) == like:
            return past
        other = other or past
    return other


def _part(facts: Mapping[str, Any], *keys: str) -> Any:
    value: Any = facts
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _key(facts: Mapping[str, Any]) -> list[Any]:
    """What decides how long a workload takes, besides its disk: emulated CPUs are tens of times slower."""
    workload = [_part(facts, "workload", key) for key in ("name", "variant", "scale", "threads")]
    words = [_part(facts, "words", key) for key in ("ARGS", "CMD", "MEM", "CPUS")]
    return [*workload, *words, _part(facts, "machine", "vm", "accel")]


def _place(facts: Mapping[str, Any]) -> list[Any]:
    """What it runs on."""
    return [_part(facts, "filesystem", "name"), _part(facts, "device", "kind")]


def _past(name: str, facts: Mapping[str, Any], phases: Path) -> Past | None:
    start, end = (_part(facts, "clock", f"workload_{which}_ns") for which in ("start", "end"))
    if facts.get("state") != "complete" or _part(facts, "workload", "exit_status") != 0:
        return None
    if not isinstance(start, int) or not isinstance(end, int) or not 0 < end - start < 1 << 60:
        return None
    found = []
    for line in (_read(phases) or b"").splitlines():
        try:
            phase = json.loads(line)
            begun, over = phase["start_ns"], phase["end_ns"]
            if start <= begun <= over <= end:  # the session's own phases lie outside
                found.append((str(phase["name"]), (over - begun) / 1e9))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return Past(name, (end - start) / 1e9, tuple(found))


def _load(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(_read(path) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read(path: Path) -> bytes | None:
    """A regular file of bearable size: runs/ is the user's."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE_BYTES_MOST:
            return None
        return os.read(file, _FILE_BYTES_MOST)
    except OSError:
        return None
    finally:
        os.close(file)
