# SPDX-License-Identifier: BSD-2-Clause
"""perf.data as a table: raw/perf/cpu_sample.rec, one row a sample, and cpu_stack.jsonl, one line a call path.

Made right after the run, where the programs and the kernel that the addresses belong to still are. Nothing is
kept in memory but the call paths, and what living processes have mapped.
"""

import json
import os
import re
import struct
import time
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from collectors.perf import data as perf_data
from collectors.perf.data import PerfData, Record
from collectors.perf.names import KernelNames, UserNames
from workloads.system.errors import RunError
from workloads.system.guest import GUEST

_MOST_STACKS = 200_000
_MOST_SECONDS = 600.0  # it takes 30,000 samples a second: a perf.data of many hours is for perf itself
NO_STACK, NOT_KEPT = -1, -2
_ROW = struct.Struct("<QIIiHBB16sI")
_MODES = {"user": 0, "kernel": 1, "idle": 2}
_INTERRUPT = re.compile(r"irq|interrupt|apic|sysvec|softirq|ipi|exc_nmi")
_CONTEXTS = 2**64 - 4095  # what is above is no address, but says whose the next ones are
_OF_KERNEL = {2**64 - 128, 2**64 - 2048}  # PERF_CONTEXT_KERNEL, PERF_CONTEXT_GUEST_KERNEL
_COMM_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_FORK_EXEC = 1 << 13  # PERF_RECORD_MISC_FORK_EXEC: perf made the note
_HAS_BUILD_ID = 1 << 14  # PERF_RECORD_MISC_MMAP_BUILD_ID: in the inode's place
_EXECUTABLE = 4  # PROT_EXEC


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
    not_read: int = 0  # samples that are in perf.data, and came too late for the time limit
    not_named: int = 0  # places in programs that nobody named in time


class Names(Protocol):
    """Says what a place in a file is called."""

    def name(self, path: str, inode: int, offset: int) -> str | None: ...


def convert(data: Path, out: Path, period_ns: int, workload: int | None) -> Counts:
    """Write both files.

    period_ns: the CPU time that a sample stands for. workload: its first process, whose children are it too;
    None: everything is. Raises RunError.
    """
    out.mkdir(exist_ok=True)
    try:
        descriptor = os.open(data, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = (error.strerror or "").lower()
        raise RunError(f"{data} cannot be read ({why}); its samples are not in the report") from None
    users = UserNames()
    try:
        with (
            os.fdopen(descriptor, "rb", buffering=1 << 20) as file,
            (out / "cpu_sample.rec").open("wb") as rows,
            (out / "cpu_stack.jsonl").open("w") as stacks,
        ):
            _check_ours(data, file)
            rows.write(_header())
            reader = _Reader(PerfData(file), rows, stacks, period_ns, workload, KernelNames(), users)
            counts = reader.read(time.monotonic() + _MOST_SECONDS)
    except (perf_data.Damaged, struct.error) as error:
        raise RunError(f"{data} cannot be read ({error}); its samples are not in the report") from None
    finally:
        users.close()
    counts.not_named = users.not_answered
    return counts


def _check_ours(data: Path, file: IO[bytes]) -> None:
    """Raise RunError unless perf.data is the one that we made.

    In a virtual machine what root makes in the host's directory may look like the host's user's.
    """
    whose = os.fstat(file.fileno()).st_uid
    if whose != os.geteuid() and GUEST not in os.environ:
        raise RunError(f"{data} belongs to uid {whose}, not to us; its samples are not in the report")


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


@dataclass(frozen=True, slots=True)
class _Map:
    """What a process has mapped to run it."""

    start: int
    end: int
    offset: int
    path: str
    inode: int


class _Reader:
    """Takes in the records."""

    def __init__(
        self,
        data: PerfData,
        rows: IO[bytes],
        stacks: IO[str],
        period_ns: int,
        workload: int | None,
        kernel: KernelNames,
        users: Names,
    ) -> None:
        self._data, self._rows, self._stacks = data, rows, stacks
        self._period_ns = period_ns
        self._root = workload
        self._kernel, self._users = kernel, users
        self._kernel_known: dict[int, str] = {}
        self._inside: set[int] = set()  # the workload's processes
        self._comms: dict[int, str] = {0: "swapper"}  # by thread
        self._maps: dict[int, list[_Map]] = {}  # by process, in order of address
        self._ids: dict[tuple[str, ...], int] = {}
        self._lost_records = 0
        self._counts = Counts()

    def read(self, until: float) -> Counts:
        """Take in all; what comes after a time (of time.monotonic) is counted as not read."""
        is_late, counts = False, self._counts
        for number, record in enumerate(self._data.records()):
            if number % 4096 == 0:
                is_late = is_late or time.monotonic() > until
            if record.kind == perf_data.SAMPLE:
                if is_late:
                    counts.not_read += 1
                else:
                    self._sample(record)
            else:
                self._note(record)
        # The kernel counts lost records by event since 6.0 (119a784c8127): PERF_RECORD_LOST counts the lost
        # records of a ring, samples and notes alike.
        if not counts.lost and not counts.lost_notes:
            counts.lost = self._lost_records
        return counts

    def _note(self, record: Record) -> None:
        kind, content = record.kind, record.content
        if kind in (perf_data.MMAP, perf_data.MMAP2):
            self._map(record)
        elif kind == perf_data.COMM:
            pid, tid = struct.unpack_from("<ii", content)
            self._comms[tid] = self._data.text(record, 8)
            if record.misc & _COMM_EXEC:
                self._maps.pop(pid, None)
        elif kind in (perf_data.FORK, perf_data.EXIT):
            child, parent, tid, parent_tid = struct.unpack_from("<iiii", content)
            if kind == perf_data.FORK:
                self._fork(child, parent, tid, parent_tid, bool(record.misc & _FORK_EXEC))
            elif child == tid:
                self._maps.pop(child, None)
        elif kind == perf_data.LOST:
            self._lost_records += struct.unpack_from("<QQ", content)[1]
        elif kind == perf_data.LOST_SAMPLES:
            lost, is_clock = self._data.lost_samples(record)
            self._counts.lost += lost if is_clock else 0
            self._counts.lost_notes += 0 if is_clock else lost
        elif kind == perf_data.THROTTLE:
            self._counts.throttled += 1
        elif kind == perf_data.KSYMBOL:
            start, size, _, flags = struct.unpack_from("<QIHH", content)
            if not flags & 1:  # not: is gone
                self._kernel.add(start, size, self._data.text(record, 16))

    def _fork(self, child: int, parent: int, tid: int, parent_tid: int, is_old: bool) -> None:
        self._comms[tid] = self._comms.get(parent_tid, f":{parent_tid}")
        if child == parent:
            return
        # What ran before perf did says itself what it has mapped: it may have begun another program since.
        self._maps[child] = [] if is_old else list(self._maps.get(parent, ()))
        if child == self._root or parent in self._inside:
            self._inside.add(child)
        else:  # another process got the number of one of ours
            self._inside.discard(child)

    def _map(self, record: Record) -> None:
        content, inode, name_at = record.content, 0, 32
        pid, _, start, length, offset = struct.unpack_from("<iiQQQ", content)
        if record.kind == perf_data.MMAP2:
            inode, protection = struct.unpack_from("<16xQ8xI", content, 24)
            inode = 0 if record.misc & _HAS_BUILD_ID else inode
            name_at = 64
            if not protection & _EXECUTABLE:
                return
        if pid == -1 or not length:  # the kernel's own
            return
        new = _Map(start, start + length, offset, self._data.text(record, name_at), inode)
        kept = self._maps.get(pid, [])
        maps = [one for one in kept if one.end <= start or one.start >= new.end]
        for one in kept:
            if one.start < start < one.end:
                maps.append(_Map(one.start, start, one.offset, one.path, one.inode))
            if one.start < new.end < one.end:
                rest = one.offset + new.end - one.start
                maps.append(_Map(new.end, one.end, rest, one.path, one.inode))
        self._maps[pid] = sorted([*maps, new], key=lambda one: one.start)

    def _sample(self, record: Record) -> None:
        """Write its row."""
        sample, counts = self._data.sample(record), self._counts
        frames, mode = self._frames(sample.pid, sample.chain)
        if sample.pid == 0 and not any(_INTERRUPT.search(name) for name in frames):
            mode = "idle"
        inside = mode != "idle" and (self._root is None or sample.pid in self._inside)
        counts.samples += 1
        counts.idle += mode == "idle"
        counts.workload += inside
        numbers = (record.time_ns, max(sample.pid, 0), max(sample.tid, 0))
        where = (self._stack_id(frames), sample.cpu & 0xFFFF, _MODES[mode], inside)
        comm = self._comms.get(sample.tid, f":{sample.tid}")
        self._rows.write(_ROW.pack(*numbers, *where, comm.encode()[:15], self._period_ns))

    def _frames(self, pid: int, chain: bytes) -> tuple[tuple[str, ...], str]:
        """The names of a call path, innermost first, the kernel's end in _[k]; and whose the first is."""
        frames: list[str] = []
        mode, in_kernel = "", False
        for address in array("Q", chain):
            if address >= _CONTEXTS:
                in_kernel = address in _OF_KERNEL
                continue
            mode = mode or ("kernel" if in_kernel else "user")
            frames.append(self._kernel_name(address) if in_kernel else self._user_name(pid, address))
        while frames and frames[-1] == "[unknown]":  # where the frame pointers lead nowhere
            frames.pop()
        return tuple(frames), mode if frames else "user"

    def _kernel_name(self, address: int) -> str:
        found = self._kernel_known.get(address)
        if found is None:
            found = self._kernel_known[address] = f"{self._kernel.name(address) or '[kernel]'}_[k]"
        return found

    def _user_name(self, pid: int, address: int) -> str:
        maps = self._maps.get(pid, ())
        at = bisect_right(maps, address, key=lambda one: one.start) - 1
        if at < 0 or address >= maps[at].end:
            return "[unknown]"
        one = maps[at]
        name = None
        if one.path == "[vdso]" or (one.path.startswith("/") and one.inode and not one.path.startswith("//")):
            name = self._users.name(one.path, one.inode, address - one.start + one.offset)
        if name is not None:
            return name
        if one.path.startswith("//anon"):
            return "[anon]"
        return one.path if one.path.startswith("[") else f"[{os.path.basename(one.path)}]"

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
