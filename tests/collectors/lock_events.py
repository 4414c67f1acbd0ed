# SPDX-License-Identifier: BSD-2-Clause
"""The lock tracepoints as the kernel's own tracer sees them: the independent source of test_locks.py.

Every event goes to a ring buffer of a private tracefs instance and is paired here by the rules of the
tracepoints (a new begin of the same lock by the same thread changes between spinning and sleeping).

Probes of a tracepoint run in the order in which they were attached. So at each event a tracer attached before
the recorder reads the clock before it, and a tracer attached after the recorder reads the clock after it: the
recorder's time lies between the two, however long an interrupt or a hypervisor stops the CPU meanwhile.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.collectors.loop_disk import mounted

BUFFER_KB = 40960
PAGE_BYTES = 65536  # at least a page of any kernel
EMPTY_S = 0.05
# Kinds of records in a page of the ring buffer (linux/ring_buffer.h): a length in words below these.
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
CLONE_THREAD = 0x00010000  # linux/sched.h
# linux/lockdep.h does not export them: include/trace/events/lock.h, LCB_F_*.
FLAGS = {"SPIN": 1, "READ": 2, "WRITE": 4, "RT": 8, "PERCPU": 16, "MUTEX": 32}


@dataclass(frozen=True, slots=True)
class Event:
    """One tracepoint."""

    comm: str
    pid: int
    lock: int
    t_ns: int
    begin: bool
    flags: frozenset[str]
    ret: int
    cpu: int
    until_ns: int = 0  # the same event by the tracer that was attached last; 0: it was not there


@dataclass
class Waits:
    """All waits on one lock."""

    kinds: set[str] = field(default_factory=set)
    count: int = 0
    failed: int = 0
    spin_ns: tuple[int, int] = (0, 0)  # at least, at most
    sleep_ns: tuple[int, int] = (0, 0)
    maybe_unseen: int = 0  # of the count: where the kernel may run no BPF program


def maybe_unseen() -> set[int]:
    """Tasks in whose context, interrupts of theirs included, the kernel may run no BPF program: process 1's.

    On the machine that this was made on none runs there, though the event tracer does: of 25 timer interrupts
    over process 1's threads it saw 25, tp_btf and raw_tp programs none, and no recursion miss was counted.
    """
    return {int(task.name) for task in Path("/proc/1/task").iterdir()}


class LockEvents:
    """A tracefs instance recording lock:* while its block runs; `events` afterwards."""

    def __init__(self, instance: Path) -> None:
        self.instance = instance
        self.events: list[Event] = []
        self.both_ns = (0, 0)  # from, until: another one surely recorded too (recording_between)
        self.unseen: set[int] = set()  # maybe_unseen() while it recorded
        # CPU, what it recorded: binary, as 6.1's text leaves strings out where it shows addresses.
        self._pages: list[tuple[int, bytes]] = []
        self._ending = threading.Event()
        self._reader = threading.Thread(target=self._empty_until_the_end, daemon=True)

    def _write(self, name: str, value: str) -> None:
        (self.instance / name).write_text(value)

    def start(self, chosen: str) -> None:
        self._write("trace_clock", "mono")
        self._write("buffer_size_kb", str(BUFFER_KB))
        if chosen:
            self._write("events/lock/contention_begin/filter", chosen)
            self._write("events/lock/contention_begin/enable", "1")
            return
        self._write("events/task/enable", "1")
        self._write("events/lock/enable", "1")
        self.unseen = maybe_unseen()
        self._reader.start()

    def _empty_until_the_end(self) -> None:
        """Read meanwhile: the whole machine's events are recorded, and a buffer holds a moment's only."""
        with ExitStack() as opened:
            pipes = {
                int(path.parent.name.removeprefix("cpu")): opened.enter_context(path.open("rb", buffering=0))
                for path in self.instance.glob("per_cpu/cpu*/trace_pipe_raw")
            }
            for pipe in pipes.values():
                os.set_blocking(pipe.fileno(), False)
            ending = False
            while not ending:
                ending = self._ending.wait(EMPTY_S)  # once more after the last event
                for cpu, pipe in pipes.items():
                    while page := pipe.read(PAGE_BYTES):  # None: no more for now
                        self._pages.append((cpu, page))

    def _stats(self) -> list[dict[str, str]]:
        """Return the counters of each CPU's ring buffer."""
        return [
            dict(line.split(": ") for line in stats.read_text().splitlines())
            for stats in self.instance.glob("per_cpu/cpu*/stats")
        ]

    def entries(self) -> int:
        """Events so far that are not read yet: of a tracer of chosen ones, all."""
        return sum(int(stats["entries"]) for stats in self._stats())

    def stop_reading(self) -> None:
        """Wait until every event so far is read."""
        self._ending.set()
        if self._reader.ident is not None:
            self._reader.join()

    def finish(self) -> None:
        self._write("events/lock/enable", "0")
        self._write("events/task/enable", "0")
        if self._reader.ident is None:
            self._reader.start()  # not before for the chosen ones: entries() counts what is not yet read
        self.stop_reading()
        for stats in self._stats():
            assert int(stats["overrun"]) == 0, "the tracer's own buffer is too small for this test"
            assert int(stats["dropped events"]) == 0
        layouts = {
            layout.number: layout
            for path in (
                "lock/contention_begin",
                "lock/contention_end",
                "task/task_newtask",
                "task/task_rename",
            )
            for layout in [Layout.read(self.instance / "events" / path)]
        }
        records = [(t_ns, cpu, data) for cpu, page in self._pages for t_ns, data in _records(page)]
        self.unseen |= maybe_unseen()
        names: dict[int, str] = {}  # a thread has its maker's name until it is renamed
        for t_ns, cpu_number, data in sorted(records, key=lambda record: record[0]):
            layout = layouts.get(int.from_bytes(data[:2], sys.byteorder))
            if layout is None:
                continue
            pid = layout.number_in(data, "common_pid")
            if layout.name == "task_newtask":
                names[layout.number_in(data, "pid")] = layout.text_in(data, "comm")
                if pid in self.unseen and layout.number_in(data, "clone_flags") & CLONE_THREAD:
                    self.unseen.add(layout.number_in(data, "pid"))  # perhaps gone by now
            elif layout.name == "task_rename":
                names[pid] = layout.text_in(data, "newcomm")
            else:
                begin = layout.name == "contention_begin"
                flags = layout.number_in(data, "flags") if begin else 0
                self.events.append(
                    Event(
                        comm=names.get(pid, ""),
                        pid=pid,
                        lock=layout.number_in(data, "lock_addr", signed=False),
                        t_ns=t_ns,
                        begin=begin,
                        flags=frozenset(name for name, bit in FLAGS.items() if flags & bit),
                        ret=0 if begin else layout.number_in(data, "ret"),
                        cpu=cpu_number,
                    )
                )


@dataclass(frozen=True)
class Layout:
    """Offset and size in bytes of an event's fields, from its format file."""

    name: str
    number: int
    fields: dict[str, tuple[int, int]]

    @classmethod
    def read(cls, event: Path) -> Layout:
        text = (event / "format").read_text()
        described = re.findall(r"field:[^;]*?(\w+)(?:\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);", text)
        fields = {name: (int(offset), int(size)) for name, offset, size in described}
        return cls(event.name, int((event / "id").read_text()), fields)

    def _bytes(self, data: bytes, field: str) -> bytes:
        offset, size = self.fields[field]
        return data[offset : offset + size]

    def number_in(self, data: bytes, field: str, signed: bool = True) -> int:
        return int.from_bytes(self._bytes(data, field), sys.byteorder, signed=signed)

    def text_in(self, data: bytes, field: str) -> str:
        return self._bytes(data, field).partition(b"\0")[0].decode()


def _records(page: bytes) -> Iterator[tuple[int, bytes]]:
    """The records of a page: time in ns, bytes (events/header_page, events/header_event)."""
    now, used = struct.unpack_from("=QQ", page)
    at, end = 16, 16 + (used & 0xFFFFF)
    while at < end:
        (head,) = struct.unpack_from("=I", page, at)
        kind, delta = head & 31, head >> 5
        (word,) = struct.unpack_from("=I", page, at + 4) if at + 8 <= end else (0,)
        if kind == PADDING:
            if delta == 0:
                return
            at += 4 + word
        elif kind == TIME_EXTEND:
            now += (word << 27) + delta
            at += 8
        elif kind == TIME_STAMP:  # absolute, but for its highest bits
            now = (now & (0x1F << 59)) | (word << 27) + delta
            at += 8
        else:
            now += delta
            start, length = (at + 8, word - 4) if kind == 0 else (at + 4, kind * 4)
            yield now, page[start : start + length]
            at = start + length


def kind_of(flags: frozenset[str]) -> str:
    """Return the lock's kind by its flags, as a name of enum lock_kind."""
    if "MUTEX" in flags:
        return "mutex"
    if "PERCPU" in flags:
        return "percpu_rwsem"
    if "RT" in flags:
        return "rtmutex"
    if "SPIN" in flags:
        return "rwlock" if flags & {"READ", "WRITE"} else "spinlock"
    return "rwsem" if flags & {"READ", "WRITE"} else "semaphore"


def between(first: list[Event], last: list[Event]) -> list[Event]:
    """Return the first tracer's events, each with the last tracer's time if that recorded the event."""
    times: dict[tuple[int, int, int, bool], list[int]] = {}
    indices: dict[tuple[int, int, int, bool], list[int]] = {}
    both = list(first)
    for index, event in enumerate(first):
        key = (event.cpu, event.pid, event.lock, event.begin)
        times.setdefault(key, []).append(event.t_ns)
        indices.setdefault(key, []).append(index)
    for event in last:
        key = (event.cpu, event.pid, event.lock, event.begin)
        at = bisect_right(times.get(key, []), event.t_ns) - 1
        if at >= 0:
            index = indices[key][at]
            both[index] = replace(first[index], until_ns=event.t_ns)
    return both


def _add(sum_ns: tuple[int, int], since: Event, until: Event) -> tuple[int, int]:
    """The sum and one phase more: at least from after its begin to before its end."""
    return (
        sum_ns[0] + max(0, until.t_ns - since.until_ns),
        sum_ns[1] + until.until_ns - since.t_ns,
    )


def pair(events: list[Event], unseen: set[int]) -> dict[int, Waits]:
    """Waits by lock; ends without begin and begins without end are left out."""
    waits: dict[int, Waits] = {}
    open_waits: dict[tuple[int, int], list[Event]] = {}  # the begins of its phases
    for event in events:
        key = (event.pid, event.lock)
        if event.begin:
            open_waits.setdefault(key, []).append(event)
            waits.setdefault(event.lock, Waits()).kinds.add(kind_of(event.flags))
            continue
        if key not in open_waits:
            continue
        lock = waits[event.lock]
        begins = open_waits.pop(key)
        for since, until in pairwise([*begins, event]):
            if "SPIN" in since.flags:
                lock.spin_ns = _add(lock.spin_ns, since, until)
            else:
                lock.sleep_ns = _add(lock.sleep_ns, since, until)
        lock.count += 1
        lock.maybe_unseen += event.pid in unseen
        lock.failed += event.ret < 0
    return waits


@contextmanager
def _tracefs(folder: Path) -> Iterator[Path]:
    """Where it is mounted, or mounted for as long as the block runs."""
    tracefs = Path("/sys/kernel/tracing")
    if (tracefs / "instances").is_dir():
        yield tracefs
        return
    # One of its own for each tracer: the kernel mounts a file system on its own root once only (EBUSY).
    with mounted("none", Path(mkdtemp(prefix="tracefs-", dir=folder)), "-t", "tracefs") as tracefs:
        yield tracefs


@contextmanager
def lock_events(folder: Path, chosen: str = "") -> Iterator[LockEvents]:
    """Record the lock tracepoints while the block runs: all, or the begins that a kernel's filter chooses."""
    with _tracefs(folder) as tracefs:
        instance = tracefs / "instances" / f"seekmeter-test-{os.getpid()}-{time.monotonic_ns()}"
        stream = None
        try:
            instance.mkdir()
            if not (instance / "events" / "lock" / "contention_begin").is_dir():
                pytest.skip("the kernel has no lock:contention_begin: use Linux 5.19 or newer")
            stream = LockEvents(instance)
            stream.start(chosen)
            yield stream
            stream.finish()
        finally:
            if instance.is_dir():
                (instance / "events" / "enable").write_text("0")
                if stream:
                    stream.stop_reading()
                instance.rmdir()
