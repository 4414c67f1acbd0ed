# SPDX-License-Identifier: BSD-2-Clause
"""A disk's events by the kernel's blk tracer and blkparse: the independent source of test_block_blkparse.py.

blktrace itself needs debugfs files that lockdown forbids; the tracer's stream through tracefs is the same.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collectors.loop_disk import mounted

BLK_IO_TRACE = struct.Struct("=IIQQIIIIIHH")  # linux/blktrace_api.h: magic, sequence, time, …, pdu_len
BLK_IO_TRACE_MAGIC = 0x65617400
SPLIT = 13  # __BLK_TA_SPLIT there
LOCK = Path("/run/seekmeter-tests/tracefs.lock")


@dataclass(frozen=True)
class Event:
    """One line of blkparse; time on CLOCK_MONOTONIC."""

    action: str
    rwbs: str
    sector: int
    size: int
    pid: int
    t_ns: int


class BlkTracer:
    """The stream while the block runs; `events` afterwards, in order of time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.stream = b""  # as the kernel gave it

    def parse(self, stream: bytes) -> None:
        """Keep the stream, and its events as blkparse says them."""
        self.stream = stream
        self.events = [event for event in blkparse(stream) if event.action != "C"]
        self.events += [event for event in blkparse(without_splits(stream)) if event.action == "C"]
        self.events.sort(key=lambda event: event.t_ns)


def records(stream: bytes, killed: bool = False) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Each record, by its fields, and what hangs on it.

    killed: who wrote the stream was killed, perhaps in the middle of the last record, which then is none.
    """
    at = 0
    while at < len(stream):
        if killed and at + BLK_IO_TRACE.size > len(stream):
            return
        fields = BLK_IO_TRACE.unpack_from(stream, at)
        assert fields[0] & 0xFFFFFF00 == BLK_IO_TRACE_MAGIC, f"no blk_io_trace at byte {at}"
        end = at + BLK_IO_TRACE.size + fields[10]
        if killed and end > len(stream):
            return
        assert end <= len(stream), f"the record at byte {at} is cut"
        yield fields, stream[at + BLK_IO_TRACE.size : end]
        at = end


def without_splits(stream: bytes) -> bytes:
    """All but the splits (X): where a bio was split, blkparse 1.3 makes later completions longer."""
    kept = [(fields, pdu) for fields, pdu in records(stream) if fields[5] & 0xFF != SPLIT]
    return b"".join(BLK_IO_TRACE.pack(*fields) + pdu for fields, pdu in kept)


def copy_without_splits(folder: Path, disk: str, to: Path) -> Path:
    """A disk's files of blktrace, but without splits: for blkparse's totals."""
    to.mkdir()
    for file in folder.glob(f"{disk}.blktrace.*"):
        (to / file.name).write_bytes(without_splits(file.read_bytes()))
    return to


def blkparse(stream: bytes) -> list[Event]:
    """Return the events that blkparse prints for a stream."""
    # blkparse counts from the first event; the stream has absolute times.
    first_ns = min(record[2] for record, _ in records(stream))
    text = subprocess.run(
        ["blkparse", "-q", "-i", "-", "-f", "EVENT %a %d %S %N %p %T %t\n"],
        input=stream, capture_output=True, check=True,
    ).stdout.decode(errors="replace")  # fmt: skip
    events = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0] == "EVENT":
            sector, size, pid, seconds, nanoseconds = map(int, fields[3:])
            t_ns = first_ns + seconds * 1_000_000_000 + nanoseconds
            events.append(Event(fields[1], fields[2], sector, size, pid, t_ns))
    return events


def setting(path: Path) -> str:
    """Return the text that restores a setting when written."""
    old = path.read_text().strip()
    if "[" in old:  # trace_clock shows all, the one in use in brackets
        old = old[old.index("[") + 1 : old.index("]")]
    return old


@contextmanager
def blk_tracer(disk: str, folder: Path) -> Iterator[BlkTracer]:
    """Trace a disk. The tracer is the whole machine's: one test at a time, and every setting is put back."""
    LOCK.parent.mkdir(exist_ok=True)
    with ExitStack() as stack:
        lock = stack.enter_context(LOCK.open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        tracefs = Path("/sys/kernel/tracing")
        if not (tracefs / "trace_pipe").exists():
            tracefs = folder / "tracefs"
            stack.enter_context(mounted("none", tracefs, "-t", "tracefs"))
        enable = Path("/sys/block") / disk / "trace" / "enable"
        if "blk" not in (tracefs / "available_tracers").read_text().split() or not enable.exists():
            pytest.skip("the kernel has no blk tracer: use one with CONFIG_BLK_DEV_IO_TRACE")
        if (tracefs / "current_tracer").read_text().strip() != "nop":
            pytest.fail(f"another program uses the tracer: end it, or echo nop >{tracefs}/current_tracer")

        def set_until_exit(path: Path, value: str) -> None:
            stack.callback(path.write_text, setting(path))
            path.write_text(value)

        set_until_exit(tracefs / "trace_clock", "mono")
        size = (tracefs / "buffer_size_kb").read_text().split()[0]
        stack.callback((tracefs / "buffer_size_kb").write_text, size)
        (tracefs / "buffer_size_kb").write_text("20000")
        set_until_exit(tracefs / "tracing_on", "1")
        set_until_exit(tracefs / "current_tracer", "blk")
        set_until_exit(tracefs / "options" / "bin", "1")
        set_until_exit(tracefs / "options" / "context-info", "0")
        (tracefs / "trace").write_text("")
        set_until_exit(enable, "1")
        tracer = BlkTracer()
        yield tracer
        enable.write_text("0")
        for stats in tracefs.glob("per_cpu/cpu*/stats"):
            lost = dict(line.split(": ") for line in stats.read_text().splitlines())
            assert int(lost["overrun"]) + int(lost["dropped events"]) == 0, "the tracer's buffer is too small"
        tracer.parse(drain(tracefs / "trace_pipe"))


def drain(path: Path) -> bytes:
    """Return the present content of trace_pipe."""
    parts = []
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while part := os.read(pipe, 1 << 20):
            parts.append(part)
    except BlockingIOError:
        pass
    finally:
        os.close(pipe)
    return b"".join(parts)
