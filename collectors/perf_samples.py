# SPDX-License-Identifier: BSD-2-Clause
"""perf.data as a table: raw/perf/cpu_sample.rec, one row a sample, and cpu_stack.jsonl, one line a call path.

Made right after the run, where the programs and the kernel that the addresses belong to still are. perf
script says what is in perf.data, line by line and in order of time, so that nothing is kept in memory but
the call paths.
"""

import json
import os
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from workloads.errors import RunError
from workloads.filesystems import find_program
from workloads.machines.choice import GUEST

# No symbols from the network; nothing in anybody's home or terminal.
ENVIRONMENT = {
    **{name: text for name, text in os.environ.items() if not name.startswith(("PERF_", "DEBUGINFOD_"))},
    "DEBUGINFOD_URLS": "",
    "PERF_CONFIG": "/dev/null",
    "PERF_PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
_MOST_STACKS = 200_000
NO_STACK, NOT_KEPT = -1, -2
_ROW = struct.Struct("<QIIiHBB16sI")
_MODES = {"user": 0, "kernel": 1, "idle": 2}
_FIELDS = ("comm", "pid", "tid", "cpu", "time", "event", "ip", "sym", "dso")
# "comm pid/tid [cpu] seconds.ns: event:"; a name may have blanks
_HEAD = re.compile(r"^\s*(.*?)\s+(-?\d+)/(-?\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+(.*)$")
_FORK = re.compile(r"PERF_RECORD_FORK\((-?\d+):(-?\d+)\):\((-?\d+):(-?\d+)\)")
_LOST = re.compile(r"PERF_RECORD_LOST(?!_SAMPLES).*?lost[ :]+(\d+)")
# "address symbol (file)"; both may have blanks and brackets, but a file begins in one of these ways
_FRAME = re.compile(r"^\s+([0-9a-f]+)\s+(.*?)\s+\(((?:/|\[|bpf_prog_|inlined|memfd:|SYSV).*)\)$")
_USER_DSO = ("[vdso]", "[vsyscall]", "[unknown]", "[heap]", "[stack]", "[uprobes]")
_UNKNOWN = ("[unknown]", False)
_MODULE = re.compile(r"\.ko(\.(xz|gz|zst))?$")
_INTERRUPT = re.compile(r"irq|interrupt|apic|sysvec|softirq|ipi|exc_nmi")


@dataclass
class Counts:
    """What was found in perf.data."""

    samples: int = 0
    idle: int = 0
    workload: int = 0
    no_stack: int = 0
    stacks_full: int = 0
    lost: int = 0
    lost_notes: int = 0  # notes of tasks and of what they map: samples after them may be misnamed
    throttled: int = 0
    not_read: int = 0  # samples that are in perf.data, and perf script did not show, or not as we expect it


def convert(data: Path, out: Path, period_ns: int, workload: int | None) -> Counts:
    """Write both files.

    period_ns: the CPU time that a sample stands for. workload: its first process, whose children are it too;
    None: everything is. Raises RunError.
    """
    program = find_program("perf")
    assert program is not None  # it made perf.data
    out.mkdir(exist_ok=True)
    argv = [str(program), "script", "--input", str(data), *_force(), "--ns", "--no-inline"]
    argv += ["--show-task-events", "--show-lost-events", "--fields", ",".join(_FIELDS)]
    with (
        tempfile.TemporaryFile() as complaints,
        (out / "cpu_sample.rec").open("wb") as rows,
        (out / "cpu_stack.jsonl").open("w") as stacks,
    ):
        rows.write(_header())
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=ENVIRONMENT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            try:
                counts = _Reader(rows, stacks, period_ns, workload).read(process.stdout)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            complaints.seek(0)
            said = complaints.read().decode(errors="replace").strip().splitlines()
            why = said[-1].strip()[:160] if said else f"exit status {process.returncode}"
            raise RunError(f"perf script: cannot read {data} ({why}); its samples are not in the report")
    _count_losses(str(program), data, counts)
    return counts


def _force() -> list[str]:
    """What perf needs to read the perf.data that we made: nothing, as it is ours; another's it refuses.

    In a virtual machine what root makes in the host's directory may look like the host's user's.
    """
    return ["--force"] if GUEST in os.environ else []


def _count_losses(program: str, data: Path, counts: Counts) -> None:
    """Take in what perf itself counts, by perf report --stats.

    PERF_RECORD_LOST (what perf script shows) counts the lost records of a ring, samples and notes alike.
    Since 6.0 the kernel counts them by event (PERF_FORMAT_LOST, 119a784c8127): the samples are cpu-clock's,
    the notes those of the event that perf adds for them (dummy).
    """
    done = subprocess.run(
        [program, "report", "--input", str(data), *_force(), "--stats"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=ENVIRONMENT,
        text=True,
        errors="replace",
        check=False,
    )
    _, *parts = re.split(r"^(.+) stats:$", done.stdout, flags=re.MULTILINE)
    by_event = dict(zip(parts[::2], parts[1::2], strict=True))
    by_event.pop("Aggregated", None)  # counts records, not what they say was lost
    samples = {name: _number("SAMPLE", text) for name, text in by_event.items()}
    lost = {name: _number("LOST_SAMPLES", text) for name, text in by_event.items()}
    counts.not_read = max(samples.get("cpu-clock", 0) - counts.samples, 0)
    if any(lost.values()):
        counts.lost = lost.pop("cpu-clock", 0)
        counts.lost_notes = sum(lost.values())


def _number(name: str, text: str) -> int:
    found = re.search(rf"\b{name} events:\s+(\d+)", text)
    return int(found[1]) if found else 0


def _header() -> bytes:
    """The head of a recording (see collectors/README.md)."""
    fields = [
        {"name": "t_ns", "offset": 0, "bytes": 8, "type": "u64"},
        {"name": "pid", "offset": 8, "bytes": 4, "type": "u32"},
        {"name": "tid", "offset": 12, "bytes": 4, "type": "u32"},
        {"name": "stack_id", "offset": 16, "bytes": 4, "type": "i32"},
        {"name": "cpu", "offset": 20, "bytes": 2, "type": "u16"},
        {"name": "mode", "offset": 22, "bytes": 1, "type": "u8", "enum": "cpu_mode"},
        {"name": "in_workload", "offset": 23, "bytes": 1, "type": "u8"},
        {"name": "comm", "offset": 24, "bytes": 16, "type": "char"},
        {"name": "period_ns", "offset": 40, "bytes": 4, "type": "u32"},  # what a sample stands for
    ]
    header = {
        "table": "cpu_sample",
        "record_bytes": _ROW.size,
        "byte_order": "little",
        "clock": "CLOCK_MONOTONIC",
        "fields": fields,
        "enums": {"cpu_mode": {str(number): name for name, number in _MODES.items()}},
    }
    text = json.dumps(header).encode()
    head = b"SKMREC01" + struct.pack("<II", len(text), 0) + text
    return head + bytes(-len(head) % 8)


class _Reader:
    """Takes in what perf script says."""

    def __init__(self, rows: IO[bytes], stacks: IO[str], period_ns: int, workload: int | None) -> None:
        self._rows, self._stacks = rows, stacks
        self._period_ns = period_ns
        self._root = workload
        self._inside: set[int] = set()  # the workload's processes
        self._ids: dict[tuple[str, ...], int] = {}
        self._sample: re.Match[str] | None = None  # the one whose frames come now
        self._frames: list[tuple[str, bool]] = []  # innermost first: name, the kernel's
        self._counts = Counts()

    def read(self, lines: IO[str]) -> Counts:
        for line in lines:
            if not line.strip():
                continue
            if line[0] == "\t" and self._sample is not None:
                frame = _FRAME.match(line)
                self._frames.append(_name(int(frame[1], 16), frame[2], frame[3]) if frame else _UNKNOWN)
                continue
            head = _HEAD.match(line)
            self._end_sample()
            if head is not None and head[7].startswith("PERF_RECORD_"):
                self._event(head[7])
            else:
                self._sample = head
        self._end_sample()
        return self._counts

    def _event(self, text: str) -> None:
        fork = _FORK.match(text)
        if fork is not None:
            child, parent = int(fork[1]), int(fork[3])
            if child == self._root or parent in self._inside:
                self._inside.add(child)
            elif child != parent:  # another process got the number of one of ours
                self._inside.discard(child)
            return
        lost = _LOST.match(text)
        if lost is not None:
            self._counts.lost += int(lost[1])
        elif text.startswith("PERF_RECORD_THROTTLE"):
            self._counts.throttled += 1

    def _end_sample(self) -> None:
        """Write the row of the sample whose frames have all come."""
        if self._sample is None:
            return
        comm, pid, tid, cpu, seconds, ns, _ = self._sample.groups()
        frames, counts = self._frames, self._counts
        self._sample, self._frames = None, []
        while frames and frames[-1][0] == "[unknown]":  # where the frame pointers lead nowhere
            frames.pop()
        mode = "kernel" if frames and frames[0][1] else "user"
        if int(pid) == 0 and not any(_INTERRUPT.search(name) for name, _ in frames):
            mode = "idle"
        inside = mode != "idle" and (self._root is None or int(pid) in self._inside)
        counts.samples += 1
        counts.idle += mode == "idle"
        counts.workload += inside
        numbers = (int(seconds) * 10**9 + int(ns), max(int(pid), 0), max(int(tid), 0))
        stack_id = self._stack_id(tuple(name for name, _ in frames))
        where = (stack_id, int(cpu), _MODES[mode], inside)
        self._rows.write(_ROW.pack(*numbers, *where, comm.encode()[:15], self._period_ns))

    def _stack_id(self, frames: tuple[str, ...]) -> int:
        if not frames:
            self._counts.no_stack += 1
            return NO_STACK
        found = self._ids.get(frames)
        if found is None:
            if len(self._ids) >= _MOST_STACKS:
                self._counts.stacks_full += 1
                return NOT_KEPT
            found = self._ids[frames] = len(self._ids)
            self._stacks.write(json.dumps({"stack_id": found, "frames": frames}) + "\n")
        return found


def _name(ip: int, symbol: str, dso: str) -> tuple[str, bool]:
    """What a frame is called, and whether it is the kernel's: those end in _[k], as in flame graphs."""
    if dso == "[unknown]":
        kernel = ip >= 1 << 63
    else:
        kernel = (
            (dso.startswith("[") and dso not in _USER_DSO and not dso.startswith(("[anon", "[stack")))
            or dso.startswith("bpf_prog_")
            or _MODULE.search(dso) is not None
        )
    if symbol == "[unknown]":
        symbol = "[kernel]" if kernel else dso if dso.startswith("[") else f"[{os.path.basename(dso)}]"
    return (f"{symbol}_[k]" if kernel else symbol), kernel
