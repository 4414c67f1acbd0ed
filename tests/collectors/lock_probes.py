# SPDX-License-Identifier: BSD-2-Clause
"""Calls of the locking functions by lock, counted by the kernel's own kprobe events: independent of BPF.

Each function has a probe with a histogram of its first argument, or of what it returns; nothing is sampled,
and what a histogram could not hold or a probe missed fails the test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_ENTRIES = 16384


def tracefs() -> Path:
    """Where it is mounted, with kprobe events; skips the test without."""
    for place in _TRACEFS:
        if (place / "kprobe_events").exists():
            return place
    pytest.skip("no kprobe events: a kernel with CONFIG_KPROBE_EVENTS, tracefs mounted, no lockdown")


class LockProbes:
    """Calls, after the block: by_lock[function][pid, address], by_result[function][what it returned]."""

    def __init__(self) -> None:
        self.by_lock: dict[str, dict[tuple[int, int], int]] = {}
        self.by_result: dict[str, dict[int, int]] = {}


def _histogram(path: Path) -> list[tuple[list[int], int]]:
    """Each entry's keys in the order asked for, and its count."""
    text = path.read_text()
    assert re.search(r"Dropped: 0$", text, re.MULTILINE), f"{path}: the histogram is too small for this test"
    found = re.findall(r"\{ (.+?) \} hitcount: +(\d+)", text)
    assert str(len(found)) == re.findall(r"Entries: (\d+)", text)[0], text
    return [([int(key) for key in re.findall(r": +(-?\d+)", keys)], int(count)) for keys, count in found]


def _tell(place: Path, line: str) -> None:
    """Add a line; opened without a seek to the end, which this file refuses."""
    file = os.open(place / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


@contextmanager
def lock_probes(functions: Sequence[str], results: Sequence[str] = ()) -> Iterator[LockProbes]:
    """Count while the block runs: calls of functions by lock, and of `results` by what they return."""
    place = tracefs()
    group = f"seekmeter{os.getpid()}"
    probes = [
        (f"p_{name}", f"p:{group}/p_{name} {name} lock=%di:u64", "common_pid,lock") for name in functions
    ]
    probes += [(f"r_{name}", f"r64:{group}/r_{name} {name} result=$retval:s32", "result") for name in results]
    counted = LockProbes()
    made = []
    try:
        for event, line, key in probes:
            _tell(place, line)
            made.append(event)
            (place / f"events/{group}/{event}/trigger").write_text(f"hist:keys={key}:size={_ENTRIES}")
        yield counted
        for event, _, key in probes:
            entries = _histogram(place / f"events/{group}/{event}/hist")
            if key == "result":
                counted.by_result[event[2:]] = {keys[0]: count for keys, count in entries}
            else:
                counted.by_lock[event[2:]] = {(keys[0], keys[1]): count for keys, count in entries}
        profile = (place / "kprobe_profile").read_text()
        for event in made:
            missed = re.search(rf"^\s*{event}\s+\d+\s+(\d+)", profile, re.MULTILINE)
            assert missed is not None
            assert missed[1] == "0", f"{event}: the probe itself missed {missed[1]} calls"
    finally:
        for event, _, key in reversed(probes):
            if event in made:
                trigger = place / f"events/{group}/{event}/trigger"
                if trigger.exists():
                    trigger.write_text(f"!hist:keys={key}:size={_ENTRIES}")
                _tell(place, f"-:{group}/{event}")
