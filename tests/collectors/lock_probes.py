# SPDX-License-Identifier: BSD-2-Clause
"""Calls of the locking functions by lock, counted by the kernel's own kprobe events: independent of BPF.

Each function has a probe with a histogram of its first argument, or of its return value. Nothing is sampled;
a full histogram or a missed probe fails the test.
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
    """Return the mount point of tracefs. Skips the test if the kernel has no kprobe events."""
    for mount_point in _TRACEFS:
        if (mount_point / "kprobe_events").exists():
            return mount_point
    pytest.skip("no kprobe events: a kernel with CONFIG_KPROBE_EVENTS, tracefs mounted, no lockdown")


class LockProbes:
    """Counts of calls: by_lock[function][pid, lock's address], by_result[function][return value]."""

    def __init__(self) -> None:
        self.by_lock: dict[str, dict[tuple[int, int], int]] = {}
        self.by_result: dict[str, dict[int, int]] = {}


def _histogram(path: Path) -> list[tuple[list[int], int]]:
    """Return each entry's keys, in the order of the trigger's, and its count."""
    text = path.read_text()
    assert re.search(r"Dropped: 0$", text, re.MULTILINE), f"{path}: the histogram is too small for this test"
    entries = re.findall(r"\{ (.+?) \} hitcount: +(\d+)", text)
    assert str(len(entries)) == re.findall(r"Entries: (\d+)", text)[0], text
    return [([int(key) for key in re.findall(r": +(-?\d+)", keys)], int(count)) for keys, count in entries]


def _add_event(tracing: Path, line: str) -> None:
    """Append a line to kprobe_events. Python's mode "a" would seek to the end, which this file refuses."""
    file = os.open(tracing / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


@contextmanager
def lock_probes(functions: Sequence[str], results: Sequence[str] = ()) -> Iterator[LockProbes]:
    """Count during the block: calls of `functions` by lock, and of `results` by return value."""
    tracing = tracefs()
    group = f"seekmeter{os.getpid()}"
    probes = [
        (f"p_{name}", f"p:{group}/p_{name} {name} lock=%di:u64", "common_pid,lock") for name in functions
    ]
    probes += [(f"r_{name}", f"r64:{group}/r_{name} {name} result=$retval:s32", "result") for name in results]
    counted = LockProbes()
    added = []
    try:
        for event, line, key in probes:
            _add_event(tracing, line)
            added.append(event)
            (tracing / f"events/{group}/{event}/trigger").write_text(f"hist:keys={key}:size={_ENTRIES}")
        yield counted
        for event, _, key in probes:
            entries = _histogram(tracing / f"events/{group}/{event}/hist")
            if key == "result":
                counted.by_result[event[2:]] = {keys[0]: count for keys, count in entries}
            else:
                counted.by_lock[event[2:]] = {(keys[0], keys[1]): count for keys, count in entries}
        profile = (tracing / "kprobe_profile").read_text()
        for event in added:
            missed = re.search(rf"^\s*{event}\s+\d+\s+(\d+)", profile, re.MULTILINE)
            assert missed is not None
            assert missed[1] == "0", f"{event}: the probe itself missed {missed[1]} calls"
    finally:
        for event, _, key in reversed(probes):
            if event in added:
                trigger = tracing / f"events/{group}/{event}/trigger"
                if trigger.exists():
                    trigger.write_text(f"!hist:keys={key}:size={_ENTRIES}")
                _add_event(tracing, f"-:{group}/{event}")
