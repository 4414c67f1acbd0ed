# SPDX-License-Identifier: BSD-2-Clause
"""The lock tracepoints as the kernel's own tracer sees them: the independent source of test_locks.py.

Every event goes to a ring buffer of a private tracefs instance and is paired here by the rules of the
tracepoints (a new begin of the same lock by the same thread changes between spinning and sleeping).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

LINE = re.compile(
    r"^\s*(?P<comm>.*)-(?P<pid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<context>\S+)\s+(?P<seconds>[\d.]+): "
    r"contention_(?P<what>begin|end): (?:0x)?(?P<lock>[0-9a-f]+) \((?:flags|ret)=(?P<value>[^)]*)\)"
)
# A thread's name as it is made or changed, in the event itself: the tracer's own list of names forgets some.
NAMED = re.compile(
    r"-(?P<pid>\d+)\s+\[.*: task_(?:newtask: pid=(?P<new>\d+) comm=|rename: .*newcomm=)(?P<comm>\S+)"
)
BUFFER_KB = 40960


@dataclass(frozen=True)
class Event:
    """One tracepoint; time in ns, to the microsecond."""

    comm: str
    pid: int
    lock: int
    t_ns: int
    begin: bool
    flags: frozenset[str]
    ret: int


@dataclass
class Waits:
    """All waits on one lock."""

    kinds: set[str] = field(default_factory=set)
    count: int = 0
    failed: int = 0
    spin_ns: int = 0
    sleep_ns: int = 0
    max_ns: int = 0
    phases: int = 0


class LockEvents:
    """A tracefs instance recording lock:* while its block runs; `events` afterwards."""

    def __init__(self, instance: Path) -> None:
        self.instance = instance
        self.events: list[Event] = []

    def _write(self, name: str, value: str) -> None:
        (self.instance / name).write_text(value)

    def start(self) -> None:
        self._write("trace_clock", "mono")
        self._write("buffer_size_kb", str(BUFFER_KB))
        self._write("options/hash-ptr", "0")
        self._write("events/task/enable", "1")
        self._write("events/lock/enable", "1")

    def finish(self) -> None:
        self._write("events/lock/enable", "0")
        names: dict[int, str] = {}
        for stats in self.instance.glob("per_cpu/cpu*/stats"):
            lost = dict(line.split(": ") for line in stats.read_text().splitlines())
            assert int(lost["overrun"]) == 0, "the tracer's own buffer is too small for this test"
            assert int(lost["dropped events"]) == 0
        for line in (self.instance / "trace").read_text(errors="replace").splitlines():
            if line.startswith("#"):
                continue
            if ": task_" in line:
                named = NAMED.search(line)
                assert named, line
                names[int(named["new"] or named["pid"])] = named["comm"]
                continue
            match = LINE.match(line)
            assert match, line
            begin = match["what"] == "begin"
            self.events.append(
                Event(
                    comm=names.get(int(match["pid"]), match["comm"]),
                    pid=int(match["pid"]),
                    lock=int(match["lock"], 16),
                    t_ns=round(float(match["seconds"]) * 1e6) * 1000,
                    begin=begin,
                    flags=frozenset(match["value"].split("|")) if begin else frozenset(),
                    ret=0 if begin else int(match["value"]),
                )
            )


def kind_of(flags: frozenset[str]) -> str:
    """The lock's kind by its flags, in lock_kind's words."""
    if "MUTEX" in flags:
        return "mutex"
    if "PERCPU" in flags:
        return "percpu_rwsem"
    if "RT" in flags:
        return "rtmutex"
    if "SPIN" in flags:
        return "rwlock" if flags & {"READ", "WRITE"} else "spinlock"
    return "rwsem" if flags & {"READ", "WRITE"} else "semaphore"


def pair(events: list[Event]) -> dict[int, Waits]:
    """Waits by lock; ends without begin and begins without end are left out."""
    waits: dict[int, Waits] = {}
    open_waits: dict[tuple[int, int], tuple[bool, int, int, int]] = {}  # spinning, since, spin, sleep
    for event in events:
        key = (event.pid, event.lock)
        spinning = "SPIN" in event.flags
        if event.begin and key not in open_waits:
            open_waits[key] = (spinning, event.t_ns, 0, 0)
            waits.setdefault(event.lock, Waits()).kinds.add(kind_of(event.flags))
            waits[event.lock].phases += 1
            continue
        if key not in open_waits:
            continue
        was_spinning, since, spin, sleep = open_waits[key]
        spin += (event.t_ns - since) * was_spinning
        sleep += (event.t_ns - since) * (not was_spinning)
        lock = waits[event.lock]
        if event.begin:
            open_waits[key] = (spinning, event.t_ns, spin, sleep)
            lock.phases += 1
            continue
        del open_waits[key]
        lock.count += 1
        lock.failed += event.ret < 0
        lock.spin_ns += spin
        lock.sleep_ns += sleep
        lock.max_ns = max(lock.max_ns, spin + sleep)
    return waits


@contextmanager
def lock_events(folder: Path) -> Iterator[LockEvents]:
    """Record the lock tracepoints of the whole system while the block runs."""
    tracefs, mounted = Path("/sys/kernel/tracing"), False
    if not (tracefs / "instances").is_dir():
        tracefs = folder / "tracefs"
        tracefs.mkdir()
        subprocess.run(["mount", "-t", "tracefs", "none", tracefs], check=True)
        mounted = True
    instance = tracefs / "instances" / f"seekmeter-test-{os.getpid()}"
    instance.mkdir()
    try:
        if not (instance / "events" / "lock" / "contention_begin").is_dir():
            pytest.skip("the kernel has no lock:contention_begin: use Linux 5.19 or newer")
        stream = LockEvents(instance)
        stream.start()
        yield stream
        stream.finish()
    finally:
        (instance / "events" / "enable").write_text("0")
        instance.rmdir()
        if mounted:
            subprocess.run(["umount", tracefs], check=True)
