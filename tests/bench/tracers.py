# SPDX-License-Identifier: BSD-2-Clause
"""Tracers of Seekmeter and of its peers as context managers, each with its own count of lost events."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from collectors.blktrace.collector import Blktrace
from collectors.collector import choices
from collectors.host.ring import Ring
from collectors.recorder.process import Recorder
from tests.bench.paired import Counts
from tests.collectors.loop_disk import tmpfs
from workloads.cleanup.janitor import Janitor
from workloads.system.errors import MachineError, RunError

READY_S = 30
STOP_S = 60
TRACEFS = Path("/sys/kernel/tracing")
BUFFER_KIB = "20000"  # per CPU: enough for 0.1 s without a reader
# make watch UNTIL='request > 500ms or stall > 10s' with its defaults.
RING = Ring(
    keep_ns=60 * 10**9,
    after_ns=10 * 10**9,
    times=3,
    gap_ns=60 * 10**9,
    ram_bytes=256 << 20,
    triggers=(("request:500000000", "request > 500ms"), ("stall:10000000000", "stall > 10s")),
)
# A line per request, like the record that `block` writes per request.
BPFTRACE = r"""
tracepoint:block:block_rq_issue /args->dev == DEV/ { @issued[args->sector] = nsecs; }
tracepoint:block:block_rq_complete /args->dev == DEV && @issued[args->sector]/ {
    printf("%llu %llu %u %s %llu\n", nsecs, args->sector, args->nr_sector, args->rwbs,
           nsecs - @issued[args->sector]);
    delete(@issued[args->sector]);
}
END { clear(@issued); }
"""


# Time off the CPU by thread and stack, like the sums of `threads`.
BPFTRACE_SWITCHES = r"""
BEGIN { printf("ready\n"); }
tracepoint:sched:sched_switch {
    @start[args->prev_pid] = nsecs;
    @stack[args->prev_pid] = kstack;
    if (@start[args->next_pid]) {
        @ns[@stack[args->next_pid], args->next_pid] = sum(nsecs - @start[args->next_pid]);
    }
}
END { clear(@stack); clear(@start); }
"""


def defaults() -> list[str]:
    """Return the collectors that a session starts by default, inside the recorder."""
    return [name for name, is_default in choices().items() if is_default]


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a tracer's files, on a disk as in a run; removed before the kernel writes them back."""
    path = os.environ.get("SEEKMETER_SCRATCH", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-", dir=path) as name:
        yield Path(name)


@contextmanager
def recorder(collect: Sequence[str], disks: Sequence[str] = (), ring: Ring | None = None) -> Iterator[Counts]:
    """The recorder as a session runs it; with a ring, as watch. Raises RunError if a collector is off."""
    counts = Counts()
    with ExitStack() as stack:
        out = stack.enter_context(scratch())
        if ring is not None:
            stack.enter_context(tmpfs(out, str(ring.ram_bytes)))
        running = Recorder(out, collect, disks, ring=ring)
        try:
            for name, state in running.states.items():
                if state["state"] != "on":
                    raise RunError(f"{name} is off: {state['why']}")
            yield counts
            if not running.alive():
                raise RunError(running.how_it_ended())
            running.stop()
        finally:
            running.kill()
        for source in json.loads((out / "losses.json").read_text())["collectors"].values():
            if source["state"] == "on":
                bpf = source.get("bpf", {})
                counts.add(
                    Counts(
                        source["seen"],
                        sum(source["lost"].values()),
                        source["notes"].get("end not seen (no latency)", 0),
                        bpf.get("sampled_runs", 0),
                        bpf.get("sampled_ns", 0),
                    )
                )


@contextmanager
def blktrace_files(disk: str) -> Iterator[Counts]:
    """COLLECT=blktrace as a session runs it, writing files of blktrace."""
    counts = Counts()
    with scratch() as raw, Janitor() as janitor:
        collector = Blktrace(raw, [disk], janitor)
        try:
            if collector.state["state"] != "on":
                raise RunError(f"COLLECT=blktrace is off: {collector.state['why']}")
            yield counts
            if not collector.alive():
                raise RunError("COLLECT=blktrace ended early")
            collector.stop()
        finally:
            collector.kill()
        losses = collector.losses()["collectors"]["blktrace"]
        counts.add(Counts(losses["seen"], sum(losses["lost"].values())))


@contextmanager
def blk_tracer(disk: str) -> Iterator[Counts]:
    """The kernel's blk tracer with its binary stream thrown away: the lower bound of blktrace's cost."""
    enable = Path("/sys/block", disk, "trace/enable")
    settings = {
        "options/bin": "1",
        "options/context-info": "0",
        "current_tracer": "blk",
        "buffer_size_kb": BUFFER_KIB,
    }
    counts = Counts()
    with ExitStack() as stack:
        if not (TRACEFS / "trace_pipe").exists():
            subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS], check=True)
            stack.callback(_unmount_tracefs)
        if "blk" not in (TRACEFS / "available_tracers").read_text().split():
            raise MachineError("the kernel has no blk tracer: use one with CONFIG_BLK_DEV_IO_TRACE")
        stack.callback((TRACEFS / "trace").write_text, "")  # leaves the buffers empty
        for name, value in settings.items():
            path = TRACEFS / name
            stack.callback(path.write_text, path.read_text().split()[0])
            path.write_text(value)
        before = _ring_buffer()
        with (TRACEFS / "trace_pipe").open("rb", buffering=0) as pipe:
            stack.callback(enable.write_text, "0")
            enable.write_text("1")
            reader = subprocess.Popen(["cat"], stdin=pipe, stdout=subprocess.DEVNULL)
            try:
                yield counts
                enable.write_text("0")
                if reader.poll() is not None:
                    raise RunError("cat of trace_pipe ended early")
            finally:
                reader.kill()
                reader.wait()
        after = _ring_buffer()
        counts.add(Counts(after.seen - before.seen, after.lost - before.lost))


def _unmount_tracefs() -> None:
    subprocess.run(["umount", TRACEFS], check=True)


def _ring_buffer() -> Counts:
    """Return the counts of the kernel's ring buffers: events read, held, overwritten, dropped."""
    counts = Counts()
    for stats in TRACEFS.glob("per_cpu/cpu*/stats"):
        numbers = {name: int(count) for name, count in re.findall(r"^(.*): (\d+)$", stats.read_text(), re.M)}
        lost = numbers["overrun"] + numbers["commit overrun"] + numbers["dropped events"]
        counts.add(Counts(numbers["read events"] + numbers["entries"] + lost, lost))
    return counts


@contextmanager
def bpftrace_lines(disk: str) -> Iterator[Counts]:
    """bpftrace, writing a line per request into a file."""
    counts = Counts()
    major, minor = map(int, Path("/sys/block", disk, "dev").read_text().split(":"))
    script = BPFTRACE.replace("DEV", str(major << 20 | minor))
    with scratch() as folder:
        lines = folder / "lines"
        with _program(["bpftrace", "-o", lines, "-e", script], lines):
            yield counts
        with lines.open("rb") as file:
            for line in file:
                if line.startswith(b"Lost "):  # "Lost 1234 events"
                    counts.add(Counts(int(line.split()[1]), int(line.split()[1])))
                else:
                    counts.seen += line[:1].isdigit()


@contextmanager
def bpftrace_switches() -> Iterator[Counts]:
    """bpftrace, summing time off the CPU by kernel stack; it tells of no losses."""
    with scratch() as folder:
        lines = folder / "lines"
        with _program(["bpftrace", "-o", lines, "-e", BPFTRACE_SWITCHES], lines, ready_bytes=1):
            yield Counts()


@contextmanager
def perf_sched() -> Iterator[Counts]:
    """perf sched record of all CPUs: a record for each switch and wake, like the collector sched."""
    counts = Counts()
    with scratch() as folder:
        data = folder / "perf.data"
        with _program(["perf", "sched", "record", "-o", data], data):
            yield counts
        counts.add(samples(data))


@contextmanager
def perf_lock() -> Iterator[Counts]:
    """perf lock record of all CPUs, like the collector locks."""
    counts = Counts()
    with scratch() as folder:
        data = folder / "perf.data"
        with _program(["perf", "lock", "record", "-a", "-B", "-o", data], data):
            yield counts
        counts.add(samples(data))


@contextmanager
def _program(argv: Sequence[str | Path], output: Path, ready_bytes: int = 1 << 16) -> Iterator[None]:
    """A tracer that writes to a file and ends at SIGINT. The block begins once the file has events."""
    if shutil.which(argv[0]) is None:
        raise MachineError(f"{argv[0]} is not installed: install the package {argv[0]}")
    with (output.parent / "stderr").open("w+") as stderr:
        running = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)

        def check() -> None:
            if running.poll() is not None:
                stderr.seek(0)
                lines = stderr.read().strip().splitlines() or ["no message"]
                raise RunError(f"{argv[0]} ended early: {lines[-1]}")

        try:
            deadline = time.monotonic() + READY_S
            while not output.exists() or output.stat().st_size < ready_bytes:
                check()
                if time.monotonic() > deadline:
                    raise RunError(f"{argv[0]} wrote no event in {READY_S} s")
                time.sleep(0.02)
            yield
            check()
            running.send_signal(signal.SIGINT)
            try:
                running.wait(STOP_S)
            except subprocess.TimeoutExpired:
                raise RunError(f"{argv[0]} did not stop in {STOP_S} s and was ended") from None
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()


def samples(data: Path) -> Counts:
    """Count samples and lost samples of a perf.data file (format: the kernel's tools/perf/Documentation)."""
    seen = lost_on_the_way = lost_in_all = 0
    with data.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:8] != b"PERFILE2":
            raise RunError("perf.data has no PERFILE2 header")
        at, size = struct.unpack_from("<QQ", content, 40)  # after magic, size, attr_size and attrs
        end = at + size
        while at < end:
            kind, _, length = struct.unpack_from("<IHH", content, at)
            if kind == 9:  # PERF_RECORD_SAMPLE
                seen += 1
            elif kind == 2:  # PERF_RECORD_LOST: id, lost
                lost_on_the_way += struct.unpack_from("<Q", content, at + 16)[0]
            elif kind == 13:  # PERF_RECORD_LOST_SAMPLES: perf's total of the same losses
                lost_in_all += struct.unpack_from("<Q", content, at + 8)[0]
            at += length
    lost = max(lost_on_the_way, lost_in_all)
    return Counts(seen + lost, lost)
