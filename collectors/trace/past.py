# SPDX-License-Identifier: BSD-2-Clause
"""Duration of an earlier run of the same workload, phase by phase, from runs/: for the progress estimate.

Only its numbers are used. A run that cannot be read or parsed is skipped.
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
    """A complete run of the same workload."""

    name: str  # of its directory
    seconds: float
    phases: tuple[tuple[str, float], ...]  # name and seconds, in their order


def find(runs: Path, facts: Mapping[str, Any]) -> Past | None:
    """Return the newest run in a directory with the same workload as in these facts (of run.json), if any.

    A run on the same file system and kind of disk is preferred to one on another.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return None
    workload, target = _workload_key(facts), _target_key(facts)
    other: Past | None = None
    for name in reversed(names[-_RUNS_MOST:]):
        past_facts = _load(runs / name / "run.json")
        if past_facts is None or _workload_key(past_facts) != workload:
            continue
        past = _past(name, past_facts, runs / name / "raw/phases.jsonl")
        if past is not None and _target_key(past_facts) == target:
            return past
        other = other or past
    return other


def _part(facts: Mapping[str, Any], *keys: str) -> Any:
    value: Any = facts
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _workload_key(facts: Mapping[str, Any]) -> list[Any]:
    """Return the options that decide the duration. Emulated CPUs are tens of times slower."""
    workload = [_part(facts, "workload", key) for key in ("name", "variant", "scale", "threads")]
    options = [_part(facts, "words", key) for key in ("ARGS", "CMD", "MEM", "CPUS")]
    return [*workload, *options, _part(facts, "machine", "vm", "accel")]


def _target_key(facts: Mapping[str, Any]) -> list[Any]:
    """Return what the workload ran on: file system and kind of disk."""
    return [_part(facts, "filesystem", "name"), _part(facts, "device", "kind")]


def _past(name: str, facts: Mapping[str, Any], phases: Path) -> Past | None:
    start, end = (_part(facts, "clock", f"workload_{which}_ns") for which in ("start", "end"))
    if facts.get("state") != "complete" or _part(facts, "workload", "exit_status") != 0:
        return None
    if not isinstance(start, int) or not isinstance(end, int) or not 0 < end - start < 1 << 60:
        return None
    durations = []
    for line in (_read(phases) or b"").splitlines():
        try:
            phase = json.loads(line)
            begin, finish = phase["start_ns"], phase["end_ns"]
            if start <= begin <= finish <= end:  # the session's own phases lie outside
                durations.append((str(phase["name"]), (finish - begin) / 1e9))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return Past(name, (end - start) / 1e9, tuple(durations))


def _load(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(_read(path) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read(path: Path) -> bytes | None:
    """Return the content of a regular file of limited size: the user may put anything into runs/."""
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
